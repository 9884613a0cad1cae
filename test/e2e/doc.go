// Package e2e tests the built binary from outside: it starts `holdfast serve`
// as a process in front of legacy servers, and plays its clients over real
// sockets.
//
// A test describes the process with [Options], starts it with [Start] and talks
// to its [Target], which knows a URL and nothing of what is behind it: the same
// stories are told to one replica and to several.
//
//	server := newServer(t, rawserver.Settings{})
//	server.Tool("greet", func(c *rawserver.Call) { … })
//	holdfast := Start(t, Options{Upstream: to(server), Config: "stream: {after: 50ms}"})
//	first := holdfast.Send(t, CallTool("greet", nil))
//	first.Asks(t, "elicitation-1")
//	last := holdfast.Retry(t, first, Answers{"elicitation-1": Accept(…)})
//	last.Text(t)
//
// HOLDFAST_E2E says what Start starts: "one" replica; three whose embedded NATS
// servers form a "cluster"; or three that meet at a process of nats-server,
// "nats". Three stand behind a plain round-robin balancer, which sends each
// connection to the next one, and no request shares a connection with another.
// What is of each replica by nature, such as its limits and its shutdown, a test
// asks of [Holdfast.One] of them. A run of the whole suite with three fails
// where no round was forwarded from one to another.
//
// HOLDFAST_E2E_UPSTREAM says how servers are spoken to: over "streamable" HTTP,
// over HTTP+SSE, "sse", or as processes over "stdio". [newServer] starts one that
// speaks that, and [to] says where it is, which over stdio is a command. A test
// about something that Streamable HTTP alone has says so with [onlyStreamable],
// and runs over that whatever the run is about. [oneStream] is for what differs
// where a session has one stream for everything: such a server does not say which
// call it asks about, so that calls which may be asked get a session each while
// they are concurrent, and a session is used through the replica that keeps it.
// Behind each process is test/fixture/pipe; every test checks that none is left.
// [TestEveryServer] is the table of what works with all kinds of servers over all
// transports, in all revisions.
//
// Tests that are about several replicas (fleet_*_test.go) use [StartFleet],
// which starts three in every mode, and choose one for each request.
//
// HOLDFAST_E2E_REVISION says which revision servers speak at the newest, one of
// those before 2026-07-28. A test about something that earlier ones do not have says
// so with [onlyNewest].
//
// HOLDFAST_SCHEMA_DIR names a folder with the protocol's JSON schemas, see
// [schema.Load], against which every message that Holdfast sends is held then. A
// test whose peers are not valid on purpose says so with [oddPeer].
//
// Tests wait for events, never for a time to pass: a line of the log, a message
// that arrives at the server, a frame of a stream. They are independent of each
// other, and run in parallel.
package e2e
