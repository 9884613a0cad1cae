// Bench measures Holdfast beside the peers that a user would know: the server
// without anything in front of it, and nginx as a plain reverse proxy.
//
//	go run ./test/bench            # all of it, a few minutes
//	go run ./test/bench -quick     # a fraction of that, coarser figures
//
// It starts everything itself, on free ports of the loopback address: a fast
// mock of a legacy server (this program again, with -role mock), nginx, and
// Holdfast, which it builds: one replica, or several whose embedded NATS
// servers form a cluster. What it costs to go from one replica to another is
// compared with a plain request-reply between two such NATS servers, one of
// which is this program with -role nats. Holdfast in front of a server over stdio,
// which is this program with -role stdio, is compared with a legacy client at that
// server's own pipes. The peers get a legacy client (2025-11-25),
// Holdfast a modern one (2026-07-28), as in life. What is compared takes turns
// in short slices, so that a busy machine disturbs all alike, and a figure is
// the median of its slices. The processor time per call of the proxy's
// processes stands beside the rates, because it is steadier than they are.
//
// Calls whose streams the replica lets go of (-only released, calls.release_after)
// are parked in front of a mock that keeps its streams resumable, many more of them
// than there may be connections, and some of them are resumed.
//
// Calls that wait are compared by dialect (-only dialects): parked ones, tasks, and
// those of resumable whose clients are away, while they run and once they ask.
//
// The figures come as a table on standard output, and as bench.md, bench.json
// and charts in the folder given with -out. Nothing that was started remains.
package main
