// Command holdfast lets modern MCP clients (protocol revision 2026-07-28) use
// legacy MCP servers (2025-11-25 and earlier).
//
// holdfast serve is the proxy: serve.go builds it from the settings. The other
// commands are for people: config, version, keygen, help, and call, a small
// modern client. This package only reads command lines and wires; what the
// commands do lives in the packages that they start.
package main
