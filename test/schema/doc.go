// Package schema holds messages against the protocol's own JSON schemas.
//
// [Load] reads a folder with the schema of each revision, as REVISION.json or, as
// in the specification's repository, as REVISION/schema.json. They are not part of
// this project: `make schemas` takes those that the official conformance suite
// carries out of its package, which is all but that of 2024-11-05, to where the
// Makefile's targets find them. Another folder is named by HOLDFAST_SCHEMA_DIR:
//
//	HOLDFAST_SCHEMA_DIR=/path/to/modelcontextprotocol/schema make test
//
// [Set.Check] is stricter than the schemas in one thing: a message must be one
// that the revision lists for who sends it, where a schema says of an unknown
// method only that its message has to look like one.
package schema
