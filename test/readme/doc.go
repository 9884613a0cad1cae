// Package readme holds README.md and the Makefile to the code: tables are what
// the code renders, names exist, and the snippets are run, in order and in one
// shell, against `holdfast serve` in front of the demo's server.
//
//	go test ./test/readme -update     writes the tables between markers anew
//
// Snippets are told by their fence: sh is run, json is what the sh before it
// prints (… at the end of a text stands for any rest), yaml is a configuration
// file, under the name in its first line if that is a comment, or a Kubernetes
// manifest, whose ConfigMap has one.
package readme
