package downstream

import (
	"go/ast"
	"go/parser"
	"go/token"
	"testing"

	"github.com/holdfast-mcp/holdfast/adapter"
)

// Every reason that exists has exactly one answer.
func TestEveryReasonHasAnAnswer(t *testing.T) {
	seen := map[adapter.Reason]int{}
	for _, a := range Reasons() {
		seen[a.Reason]++
		if seen[a.Reason] > 1 {
			t.Errorf("%s has two answers", a.Reason)
		}
		if a.Meaning == "" || a.Status < 200 || a.Code >= 0 {
			t.Errorf("%+v is incomplete", a)
		}
	}
	for _, file := range []string{"../../adapter/refusal.go", "answer.go"} {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 {
				return true
			}
			value, ok := spec.Values[0].(*ast.BasicLit)
			if kind, isName := spec.Type.(*ast.Ident); !ok || !isName || kind.Name != "Reason" {
				if sel, isSel := spec.Type.(*ast.SelectorExpr); !ok || !isSel || sel.Sel.Name != "Reason" {
					return true
				}
			}
			reason := adapter.Reason(value.Value[1 : len(value.Value)-1])
			if seen[reason] == 0 {
				t.Errorf("%s: reason %q has no answer", file, reason)
			}
			delete(seen, reason)
			return true
		})
	}
	for reason := range seen {
		t.Errorf("the table answers %q, which no constant names", reason)
	}
}
