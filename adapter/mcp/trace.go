package mcp

// TraceFields are the header fields of W3C Trace Context and Baggage. They are
// about one request, whoever sent it.
var TraceFields = [...]string{"Traceparent", "Tracestate", "Baggage"}
