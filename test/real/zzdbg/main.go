package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/holdfast-mcp/holdfast/test/real/peer"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	caps := map[string]any{"elicitation": map[string]any{"form": map[string]any{}}, "roots": map[string]any{}}
	c := peer.NewModern(os.Args[1], peer.Identity{Name: "seq", Capabilities: caps, Answers: peer.Answers{"roots/list": map[string]any{"roots": []any{}}}})
	call := func(name string, args map[string]any, progress bool) {
		o, err := c.Call(ctx, peer.Request{Method: "tools/call", Params: map[string]any{"name": name, "arguments": args}, Progress: progress})
		if err != nil || o.Error != nil {
			fmt.Println(err, o.Error)
		}
		if progress && len(o.Progress) != 3 {
			fmt.Println(len(o.Progress), "progress, asked", o.Asked)
		}
	}
	call("get-roots-list", map[string]any{}, false)
	for range 300 {
		call("echo", map[string]any{"message": "x"}, false)
	}
	for range 100 {
		call("trigger-long-running-operation", map[string]any{"duration": 0.01, "steps": 3}, true)
	}
	fmt.Println("asked", len(c.Asked()))
}
