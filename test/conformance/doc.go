// Command conformance runs the official MCP conformance suite against Holdfast
// in front of a legacy server (test/fixture/conformanceserver), and the scenarios
// of the tasks extension in front of another (test/fixture/taskserver), prints what came
// of every scenario, and fails unless all that revision 2026-07-28 requires of a
// server passes, warnings counting as failures, plus the scenarios in [extras].
//
//	go run ./test/conformance            what `make conformance` calls
//	go run ./test/conformance -direct    the suite against the legacy server itself
//	go run ./test/conformance -url URL   the suite against something that runs already
//	go run ./test/conformance -schemas DIR   the JSON schemas that the suite carries, for test/schema
//
// The suite and the Node that it needs come from npm into a folder that git
// ignores, pinned by package-lock.json. `node` unpacks its binary in an install
// script, which package.json allows for it alone.
//
// What the programs wrote, and the suite's own records, stay in results/.
package main
