// Package checkout tells the programs under test where they are: the folder of
// the module, and a loopback address to listen on.
package checkout
