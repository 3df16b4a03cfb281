package adapt

import (
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"testing"
)

// What all workers of a job compute for themselves, and must agree on to the bit, is in these
// files: noise, gain, factors and progress.
var agreedFiles = []string{"decay.go", "estimator.go", "evidence.go", "factor.go", "measurement.go", "noise.go", "progress.go"}

// Go may fuse x*y + z into one operation, which rounds once, and does so on arm64 and not on amd64.
// An explicit conversion of the product prevents that. Of package math only what IEEE 754 defines
// to the bit may be used: Pow, Exp and Log are other code on each architecture.
func TestWorkersOfAllArchitecturesComputeTheSame(t *testing.T) {
	exact := map[string]bool{"Sqrt": true, "IsNaN": true, "IsInf": true, "Inf": true, "Floor": true, "MaxFloat64": true, "MaxInt32": true, "Modf": true}
	for _, name := range agreedFiles {
		files := token.NewFileSet()
		f, err := parser.ParseFile(files, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		product := func(e ast.Expr) bool {
			b, ok := ast.Unparen(e).(*ast.BinaryExpr)
			return ok && b.Op == token.MUL
		}
		check := func(at ast.Node, operands ...ast.Expr) {
			for _, e := range operands {
				if product(e) {
					t.Errorf("%v: a sum of a product, which may be fused: write float64(x*y)", files.Position(at.Pos()))
				}
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BinaryExpr:
				if n.Op == token.ADD || n.Op == token.SUB {
					check(n, n.X, n.Y)
				}
			case *ast.AssignStmt:
				if n.Tok == token.ADD_ASSIGN || n.Tok == token.SUB_ASSIGN {
					check(n, n.Rhs...)
				}
			case *ast.SelectorExpr:
				if p, ok := n.X.(*ast.Ident); ok && p.Name == "math" && !exact[n.Sel.Name] {
					t.Errorf("%v: math.%s is not the same to the bit on all architectures", files.Position(n.Pos()), n.Sel.Name)
				}
			}
			return true
		})
	}
}

// The decay of the averages is smoothing^scale to within rounding, and the same bits everywhere.
func TestDecayIsAPower(t *testing.T) {
	for _, smoothing := range []float64{0.5, 0.9, 0.999, 0.999 * 0.999 * 0.999 * 0.999, 1 - 1e-12, 1e-300} {
		for _, scale := range []float64{1e-9, 0.1, 0.25, 0.5, 1, 1.5, 2, 3, 8, 63.0 / 64, 97.0 / 13, 1000.7, 1e6 + 0.3} {
			got, want := decay(smoothing, scale), math.Pow(smoothing, scale)
			if math.Abs(got-want) > 1e-13*want*max(1, -math.Log(smoothing)*scale) {
				t.Errorf("decay(%v, %v): got %v, want %v", smoothing, scale, got, want)
			}
		}
	}
	for _, scale := range []float64{1e300, math.MaxFloat64} {
		if got := decay(0.999, scale); got != 0 {
			t.Errorf("decay(0.999, %v): got %v, want 0", scale, got)
		}
	}
	for scale, bits := range map[float64]uint64{1: 0x3feff7ced916872b, 2.5: 0x3fefeb890d2f6719, 97.0 / 13: 0x3fefc3127b96f485, 1.0 / 3: 0x3feffd44b758065f} {
		if got := math.Float64bits(decay(0.999, scale)); got != bits {
			t.Errorf("decay(0.999, %v): got %#x, want %#x", scale, got, bits)
		}
	}
}
