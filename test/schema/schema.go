package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Revisions are those of which there are schemas, the modern one last.
var Revisions = []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"}

// Side is who sends a message.
type Side string

const (
	Client Side = "Client"
	Server Side = "Server"
)

// Request is what a response answers. The zero value is an unknown one.
type Request struct {
	Method string
	// Task says that it asked for a task (2025-11-25, basic/utilities/tasks).
	Task bool
}

// Set are the schemas of a folder. It may be used by several goroutines.
type Set struct {
	revisions map[string]*revision
}

// Load reads the schemas that a folder has; none at all is an error.
func Load(dir string) (*Set, error) {
	s := &Set{revisions: map[string]*revision{}}
	for _, name := range Revisions {
		text, err := os.ReadFile(filepath.Join(dir, name+".json"))
		if errors.Is(err, fs.ErrNotExist) {
			text, err = os.ReadFile(filepath.Join(dir, name, "schema.json"))
		}
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			s.revisions[name], err = parse(name, text)
		}
		if err != nil {
			return nil, fmt.Errorf("schema of %s: %w", name, err)
		}
	}
	if len(s.revisions) == 0 {
		return nil, fmt.Errorf("no schema in %s: it has to have one REVISION.json or more, of %s", dir, strings.Join(Revisions, ", "))
	}
	return s, nil
}

// Missing are the revisions without a schema.
func (s *Set) Missing() []string {
	return slices.DeleteFunc(slices.Clone(Revisions), s.Has)
}

// Has reports whether there is the schema of a revision.
func (s *Set) Has(revision string) bool { return s.revisions[revision] != nil }

// Check says what is wrong with a message in a revision, whose schema there must
// be. answered is what it answers, where it is a response.
func (s *Set) Check(revision string, from Side, message []byte, answered Request) error {
	r := s.revisions[revision]
	if r == nil {
		return fmt.Errorf("there is no schema of %s", revision)
	}
	var m struct {
		ID     json.RawMessage
		Method *string
		Result json.RawMessage
		Error  *struct{ Code json.RawMessage }
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(message))
	if err == nil {
		err = json.Unmarshal(message, &m)
	}
	switch {
	case err != nil:
		return fmt.Errorf("no JSON-RPC message: %w", err)
	case m.Method != nil && m.ID != nil:
		return r.sent(string(from)+"Request", *m.Method, value)
	case m.Method != nil:
		return r.sent(string(from)+"Notification", *m.Method, value)
	case m.Error != nil:
		return r.valid(r.errorOf(string(m.Error.Code)), value)
	case m.Result == nil:
		return errors.New("neither request, notification, result nor error")
	}
	if err := r.valid(r.oneOf("JSONRPCResultResponse", "JSONRPCResponse"), value); err != nil {
		return err
	}
	if name := r.resultOf(answered, m.Result); name != "" {
		return r.valid(name, value.(map[string]any)["result"])
	}
	return nil
}

// revision is one schema: a list of definitions.
type revision struct {
	name     string
	keyword  string // that the definitions are under
	defs     map[string]definition
	methods  map[string]map[string]string // definitions by method, by the union that they are in
	results  map[string]string            // of requests, by method
	errors   map[string]string            // by code
	mu       sync.Mutex                   // guards what follows
	compiler *jsonschema.Compiler
	compiled map[string]*jsonschema.Schema
}

// definition is what must be known of one to choose it.
type definition struct {
	Ref   string `json:"$ref"`
	AnyOf []struct {
		Ref string `json:"$ref"`
	} `json:"anyOf"`
	Properties struct {
		Method struct{ Const string }
		Error  struct {
			AllOf []struct {
				Properties struct {
					Code struct{ Const json.RawMessage }
				}
			} `json:"allOf"`
		}
	}
}

func parse(name string, text []byte) (*revision, error) {
	var file struct {
		Defs        map[string]definition `json:"$defs"`
		Definitions map[string]definition `json:"definitions"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, err
	}
	r := &revision{name: name, keyword: "$defs", defs: file.Defs, errors: map[string]string{},
		methods: map[string]map[string]string{}, results: map[string]string{}, compiled: map[string]*jsonschema.Schema{}}
	if r.defs == nil {
		r.keyword, r.defs = "definitions", file.Definitions
	}
	for _, union := range []string{"ClientRequest", "ClientNotification", "ServerRequest", "ServerNotification"} {
		r.methods[union] = r.members(union)
		for method, def := range r.methods[union] {
			result := strings.TrimSuffix(def, "Request") + "Result"
			if _, is := r.defs[result]; is && strings.HasSuffix(def, "Request") {
				r.results[method] = result
			}
		}
	}
	for _, question := range []string{"CreateMessage", "Elicit", "ListRoots"} { // in 2026-07-28 of no union
		if _, is := r.defs[question+"Result"]; is {
			r.results[r.defs[question+"Request"].Properties.Method.Const] = question + "Result"
		}
	}
	for def, d := range r.defs {
		for _, part := range d.Properties.Error.AllOf {
			if code := part.Properties.Code.Const; code != nil {
				r.errors[string(code)] = def
			}
		}
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	r.mend(value)
	r.compiler = jsonschema.NewCompiler()
	r.compiler.UseLoader(jsonschema.SchemeURLLoader{}) // nothing but this file
	r.compiler.AssertFormat()
	return r, r.compiler.AddResource(r.url(), value)
}

// members are the definitions of a union, by method.
func (r *revision) members(union string) map[string]string {
	found := map[string]string{}
	add := func(ref string) {
		name := ref[strings.LastIndexByte(ref, '/')+1:]
		if method := r.defs[name].Properties.Method.Const; method != "" {
			found[method] = name
		}
	}
	d := r.defs[union]
	add(d.Ref)
	for _, m := range d.AnyOf {
		add(m.Ref)
	}
	if method := d.Properties.Method.Const; method != "" { // it is its only member
		found[method] = union
	}
	return found
}

// mend puts right what the schema files get wrong: bounds and default of a number
// are numbers, as schema.ts has it, and not integers.
func (r *revision) mend(file any) {
	at := file
	for _, name := range []string{r.keyword, "NumberSchema", "properties"} {
		object, _ := at.(map[string]any)
		at = object[name]
	}
	properties, _ := at.(map[string]any)
	for _, name := range []string{"minimum", "maximum", "default"} {
		if property, is := properties[name].(map[string]any); is {
			property["type"] = "number"
		}
	}
}

func (r *revision) url() string { return "mcp://" + r.name }

// sent checks a request or notification, which must be one of the union.
func (r *revision) sent(union, method string, value any) error {
	def := r.methods[union][method]
	if def == "" {
		return fmt.Errorf("%s has no %s %q", r.name, union, method)
	}
	return r.valid(def, value)
}

// resultOf is the definition of a result, "" where any will do.
func (r *revision) resultOf(answered Request, result []byte) string {
	var is struct{ ResultType string }
	_ = json.Unmarshal(result, &is) // then it is no object, which the envelope's schema says
	switch {
	case answered.Task:
		return r.oneOf("CreateTaskResult", "Result")
	case is.ResultType == "input_required":
		return r.oneOf("InputRequiredResult", "Result")
	}
	return r.results[answered.Method]
}

func (r *revision) errorOf(code string) string {
	if def := r.errors[code]; def != "" {
		return def
	}
	return r.oneOf("JSONRPCErrorResponse", "JSONRPCError")
}

// oneOf is the first of these definitions that there is.
func (r *revision) oneOf(names ...string) string {
	for _, name := range names {
		if _, is := r.defs[name]; is {
			return name
		}
	}
	return names[0]
}

// valid checks a value against a definition.
func (r *revision) valid(def string, value any) error {
	schema, err := r.compile(def)
	if err == nil {
		err = schema.Validate(value)
	}
	if err != nil {
		return fmt.Errorf("no %s of %s: %w", def, r.name, err)
	}
	return nil
}

func (r *revision) compile(def string) (*jsonschema.Schema, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if schema := r.compiled[def]; schema != nil {
		return schema, nil
	}
	schema, err := r.compiler.Compile(r.url() + "#/" + r.keyword + "/" + def)
	if err == nil {
		r.compiled[def] = schema
	}
	return schema, err
}
