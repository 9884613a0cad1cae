// Package report puts the figures of one benchmark run into the forms that
// they are read in: text for a terminal, Markdown, JSON, and charts as SVG.
package report
