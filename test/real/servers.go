package main

// server is a published stdio server, as package.json pins it.
type server struct {
	name  string // of the package
	bin   string // of the program that it installs
	args  []string
	env   map[string]string
	files map[string]string // in its home, which is its working folder
	roots []string          // what the client answers to roots/list
	calls []step            // at least one is harmless and offline, or ends with a clear error
	// fault is why the server itself is to blame for what differs; "" where
	// nothing may differ.
	fault string
}

// inHome stands for the server's home in args, env, roots and calls.
const inHome = "$HOME"

// servers are all that are tried beside server-everything. They start without
// credentials and do nothing to the machine that they run on; what would need a
// network or a browser ends with an error, the same on both sides. Ten are the
// MCP Apps examples, three speak 2024-11-05, one greets on standard output, three
// ask for roots by themselves.
var servers = []server{
	{
		name: "@modelcontextprotocol/server-filesystem", bin: "mcp-server-filesystem", args: []string{inHome + "/given"},
		files: map[string]string{"given/a.txt": "given\n", "root/b.txt": "of a root\n"},
		roots: []string{"file://" + inHome + "/root"},
		// It asks for roots by itself, which a modern client hears with its first
		// call, and looks at them beside other calls.
		calls: []step{
			tool("read_multiple_files", object{"paths": "none"}),
			until("list_allowed_directories", "/root"),
			tool("read_text_file", object{"path": inHome + "/root/b.txt"}),
			tool("list_directory", object{"path": inHome + "/root"}),
			tool("read_text_file", object{"path": inHome + "/elsewhere"}),
		},
	},
	{
		name: "@modelcontextprotocol/server-memory", bin: "mcp-server-memory", env: map[string]string{"MEMORY_FILE_PATH": inHome + "/memory.jsonl"},
		calls: []step{
			tool("create_entities", object{"entities": []any{object{"name": "Ada", "entityType": "person", "observations": []any{"counts"}}}}),
			tool("read_graph", object{}),
			tool("create_entities", object{}),
		},
	},
	{
		name: "@modelcontextprotocol/server-sequential-thinking", bin: "mcp-server-sequential-thinking",
		calls: []step{tool("sequentialthinking", object{"thought": "one", "nextThoughtNeeded": true, "thoughtNumber": 1, "totalThoughts": 2})},
	},
	{name: "@modelcontextprotocol/server-github", bin: "mcp-server-github", calls: []step{
		tool("get_issue", object{"owner": "o"}),
		tool("search_repositories", object{"query": "clocks"}),
	}},
	{
		name: "@modelcontextprotocol/server-postgres", bin: "mcp-server-postgres", args: []string{"postgresql://127.0.0.1:1/none"},
		calls: []step{tool("query", object{"sql": "SELECT 1"})},
	},
	{name: "@modelcontextprotocol/server-puppeteer", bin: "mcp-server-puppeteer", calls: []step{
		tool("puppeteer_click", object{"selector": "a"}),
		read(subject{"resource", "console://logs"}, "console://logs"),
	}},
	{name: "@modelcontextprotocol/server-budget-allocator", bin: "mcp-budget-allocator-server", args: []string{"--stdio"}, calls: []step{
		tool("get-budget-data", object{}, invented),
		read(subject{"resource", "ui://"}, "ui://budget-allocator/mcp-app.html"),
	}},
	{name: "@modelcontextprotocol/server-cohort-heatmap", bin: "mcp-cohort-heatmap-server", args: []string{"--stdio"}, calls: []step{
		tool("get-cohort-data", object{"metric": "retention", "periodType": "monthly", "cohortCount": 3, "maxPeriods": 3}, invented),
	}},
	{name: "@modelcontextprotocol/server-customer-segmentation", bin: "mcp-customer-segmentation-server", args: []string{"--stdio"}, calls: []step{
		tool("get-customer-data", object{"segment": "All"}, invented),
	}},
	{name: "@modelcontextprotocol/server-map", bin: "mcp-map-server", args: []string{"--stdio"}, calls: []step{
		tool("show-map", object{"west": 1, "south": 2, "east": 3, "north": 4}, viewID),
	}},
	{name: "@modelcontextprotocol/server-shadertoy", bin: "mcp-shadertoy-server", args: []string{"--stdio"}, calls: []step{
		tool("render-shadertoy", object{}),
	}},
	{name: "@modelcontextprotocol/server-sheet-music", bin: "mcp-sheet-music-server", args: []string{"--stdio"}, calls: []step{
		tool("play-sheet-music", object{"abcNotation": "X:1\nT:Scale\nK:C\nCDEF|"}),
		tool("play-sheet-music", object{"abcNotation": "?"}),
	}},
	{name: "@modelcontextprotocol/server-threejs", bin: "mcp-threejs-server", args: []string{"--stdio"}, calls: []step{
		tool("learn_threejs", object{}),
		tool("show_threejs_scene", object{}),
	}},
	{name: "@modelcontextprotocol/server-transcript", bin: "mcp-transcript-server", args: []string{"--stdio"}, calls: []step{
		tool("transcribe", object{}),
	}},
	{name: "@modelcontextprotocol/server-video-resource", bin: "mcp-video-resource-server", args: []string{"--stdio"}, calls: []step{
		tool("play_video", object{"videoId": "bunny-1mb"}),
		tool("play_video", object{"videoId": "none"}),
	}},
	{name: "@modelcontextprotocol/server-basic-vue", bin: "mcp-server-basic-vue", args: []string{"--stdio"}, calls: []step{
		tool("get-time", object{}, instant),
	}},
	{name: "@playwright/mcp", bin: "playwright-mcp", calls: []step{
		tool("browser_close", object{}),
		tool("browser_resize", object{"width": "wide"}),
	}},
	{name: "chrome-devtools-mcp", bin: "chrome-devtools-mcp", calls: []step{
		tool("list_pages", object{}),
	}},
	{name: "@upstash/context7-mcp", bin: "context7-mcp", calls: []step{
		tool("query-docs", object{"libraryId": 1}),
		tool("resolve-library-id", object{"query": "clocks", "libraryName": "clocks"}),
	}},
	{
		name: "@eslint/mcp", bin: "mcp",
		files: map[string]string{"eslint.config.mjs": "export default [{rules: {\"no-undef\": \"error\"}}];\n", "a.js": "nothing();\n", "package.json": "{}"},
		calls: []step{tool("lint-files", object{"filePaths": []any{inHome + "/a.js"}})},
	},
	{name: "@antv/mcp-server-chart", bin: "mcp-server-chart", calls: []step{
		tool("generate_pie_chart", object{"data": "none"}),
		tool("generate_pie_chart", object{"data": []any{object{"category": "a", "value": 1}}}),
	}},
	{name: "mcp-server-code-runner", bin: "mcp-server-code-runner", calls: []step{
		tool("run-code", object{"languageId": "javascript", "code": "console.log(6 * 7)"}),
		tool("run-code", object{"languageId": "none", "code": "1"}),
	}},
	{name: "exa-mcp-server", bin: "exa-mcp-server", calls: []step{
		tool("web_search_exa", object{}),
		request(subject{"prompt", "web_search_help"}, promptOf("web_search_help")),
	}},
	{name: "@notionhq/notion-mcp-server", bin: "notion-mcp-server", calls: []step{
		tool("API-get-self", object{}),
	}},
	{name: "@drawio/mcp", bin: "drawio-mcp", calls: []step{
		tool("search_shapes", object{"query": "clock"}),
		tool("list_pages", object{"path": inHome + "/none.drawio"}),
	}},
}
