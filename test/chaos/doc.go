// Command chaos drives calls through several replicas of Holdfast while it
// kills, drains, adds and cuts off replicas, restarts NATS, and breaks the
// connections of clients and servers; in the end it holds what the clients were
// told against what the legacy server did.
//
//	make chaos                               # four minutes and some, 2,000 calls and more
//	CHAOS_SEED=7 CHAOS_CALLS=200 make chaos  # the same plan again, a tenth of it
//
// A run has three parts: the replicas' embedded NATS servers form a cluster; the
// replicas use a nats-server process; and they form a cluster in front of commands
// (stdio), whose processes are killed too. CHAOS_PART=stdio, cluster or external
// runs one of them alone. Each part has
//
//   - a legacy server (Server) with two endpoints: one whose event streams carry
//     ids and can be resumed, and one without ids, whose tools are annotated as
//     harmless or not at all. It writes down every execution and every answer
//     (Ledger). Over stdio test/fixture/pipe connects it with the replicas; one
//     of the two commands leaves a process behind that SIGTERM does not end;
//   - replicas of the built binary on fixed addresses (Fleet), the links between
//     them, to NATS and to the server being Toxiproxy's;
//   - clients (Client) behind a round-robin that goes by connections; over HTTP
//     every other one speaks MRTR, and the rest all other dialects in turn
//     (dialect.go). Each follows its plan: what the tool will ask, how long the
//     person thinks, which requests are sent twice, where the connection breaks,
//     who cancels, never comes back, or comes with another's handle;
//   - faults, in two lanes: of replicas, and of links or the commands' processes.
//
// The plans of calls and faults come from the seed alone. How they meet does
// not, so that a seed shows the same mix again, not the same run.
//
// What must hold is in ledger.go (what the server saw), load.go (what clients were
// told; dialect.go has the terms of each dialect, tasks.go and follow.go what holds
// in two of them), leftover.go (what replicas and the server have left in the end) and
// custody.go (which sessions may be left at the server); the run fails, too, when a
// fault or a rung of the failover ladder did not happen often enough, or a dialect was
// hardly spoken. The program needs Linux (/proc, and loopback addresses beside
// 127.0.0.1).
package main
