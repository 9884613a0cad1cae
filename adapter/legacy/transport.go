package legacy

// Transport is how a server is spoken to.
type Transport uint8

const (
	TransportAuto       Transport = iota // Streamable HTTP or HTTP+SSE, as the server answers
	TransportStreamable                  // spec 2025-11-25, basic/transports, "Streamable HTTP"
	TransportSSE                         // spec 2024-11-05, basic/transports, "HTTP with SSE"
	TransportStdio                       // same, "stdio"
)
