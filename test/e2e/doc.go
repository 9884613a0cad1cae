// Package e2e tests the built binary from outside: it starts `holdfast serve`
// as a process in front of legacy servers, and plays its clients over real
// sockets.
//
// A test describes the process with [Options], starts it with [Start] and talks
// to its [Target], which knows a URL and nothing of what is behind it: the same
// stories can be told to one replica or to several.
//
//	server := rawserver.New(t, rawserver.Settings{})
//	server.Tool("greet", func(c *rawserver.Call) { … })
//	holdfast := Start(t, Options{Upstream: server.URL, Config: "stream: {after: 50ms}"})
//	first := holdfast.Send(t, CallTool("greet", nil))
//	first.Asks(t, "elicitation-1")
//	last := holdfast.Retry(t, first, Answers{"elicitation-1": Accept(…)})
//	last.Text(t)
//
// Tests wait for events, never for a time to pass: a line of the log, a message
// that arrives at the server, a frame of a stream. They are independent of each
// other, and run in parallel.
package e2e
