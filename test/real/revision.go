package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/holdfast-mcp/holdfast/test/real/peer"
)

const metaServerInfo = "io.modelcontextprotocol/serverInfo"

// cacheable are the methods whose results say how long they may be kept (spec
// 2026-07-28, server/utilities/caching).
var cacheable = []string{"server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read"}

// fromLegacy takes off what the modern revision has no more: the handshake's
// version, the tasks capability, a tool's execution; and -32002, which became
// -32602 (spec 2026-07-28, changelog).
func fromLegacy(o peer.Outcome) peer.Outcome {
	if failure, ok := o.Error.(map[string]any); ok && failure["code"] == json.Number("-32002") {
		failure = maps.Clone(failure)
		failure["code"] = json.Number("-32602")
		o.Error = failure
	}
	result, ok := o.Result.(map[string]any)
	if !ok {
		return o
	}
	result = maps.Clone(result)
	switch o.Method {
	case "initialize":
		o.Method = "server/discover"
		delete(result, "protocolVersion")
		if capabilities, ok := result["capabilities"].(map[string]any); ok {
			capabilities = maps.Clone(capabilities)
			delete(capabilities, "tasks")
			result["capabilities"] = capabilities
		}
	case "tools/list":
		list, _ := result["tools"].([]any)
		list = slices.Clone(list)
		for i, element := range list {
			if tool, ok := element.(map[string]any); ok {
				tool = maps.Clone(tool)
				delete(tool, "execution")
				list[i] = tool
			}
		}
		result["tools"] = list
	}
	o.Result = result
	return o
}

// fromModern checks what the modern revision adds, and takes it off.
func fromModern(o peer.Outcome) (peer.Outcome, error) {
	result, ok := o.Result.(map[string]any)
	if !ok || o.Method == "" {
		return o, nil
	}
	result = maps.Clone(result)
	if result["resultType"] != "complete" {
		return o, fmt.Errorf("resultType is %v, want complete", result["resultType"])
	}
	delete(result, "resultType")
	meta, _ := result["_meta"].(map[string]any)
	info, ok := meta[metaServerInfo].(map[string]any)
	if !ok {
		return o, fmt.Errorf("_meta is %v, want it with %s", result["_meta"], metaServerInfo)
	}
	meta = maps.Clone(meta)
	delete(meta, metaServerInfo)
	if result["_meta"] = meta; len(meta) == 0 {
		delete(result, "_meta")
	}
	if slices.Contains(cacheable, o.Method) {
		ttl, _ := result["ttlMs"].(json.Number)
		if milliseconds, err := ttl.Int64(); err != nil || milliseconds < 0 {
			return o, fmt.Errorf("ttlMs is %v, want a number of milliseconds", result["ttlMs"])
		}
		if scope := result["cacheScope"]; scope != "public" && scope != "private" {
			return o, fmt.Errorf("cacheScope is %v, want public or private", scope)
		}
		delete(result, "ttlMs")
		delete(result, "cacheScope")
	}
	if o.Method == "server/discover" {
		versions, _ := result["supportedVersions"].([]any)
		if !slices.Contains(versions, any(peer.ModernVersion)) {
			return o, fmt.Errorf("supportedVersions is %v, want %s in it", versions, peer.ModernVersion)
		}
		delete(result, "supportedVersions")
		result["serverInfo"] = info // where the legacy revision has it
		capabilities, err := withoutOurs(result["capabilities"])
		if err != nil {
			return o, err
		}
		result["capabilities"] = capabilities
	}
	o.Result = result
	return o, nil
}

// ours are the extensions that server/discover has of Holdfast itself, whatever the
// server is.
var ours = []string{"dev.holdfast/dialects", "io.modelcontextprotocol/tasks"}

// withoutOurs checks that capabilities have them, and takes them off.
func withoutOurs(capabilities any) (any, error) {
	all, _ := capabilities.(map[string]any)
	extensions, _ := all["extensions"].(map[string]any)
	all, extensions = maps.Clone(all), maps.Clone(extensions)
	for _, name := range ours {
		if _, ok := extensions[name].(map[string]any); !ok {
			return nil, fmt.Errorf("extensions are %v, want %s among them", extensions, name)
		}
		delete(extensions, name)
	}
	if all["extensions"] = extensions; len(extensions) == 0 {
		delete(all, "extensions")
	}
	return all, nil
}
