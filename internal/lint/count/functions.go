package count

import (
	"fmt"
	"go/ast"
	"go/token"
)

// A Function has the figures of a function or method.
type Function struct {
	// Name is the function's, with its receiver's type before it; Place is its file and line.
	Name, Place string

	// Lines counts from the line of func to that of the closing brace.
	Lines int

	// Nesting is the number of blocks that the deepest statement stands in, with the function's
	// own. A case is as deep as its switch, and an else if as its if.
	Nesting int

	// Parameters leaves out the receiver.
	Parameters int
}

func functions(set *token.FileSet, f *ast.File, file string) (list []Function) {
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body == nil {
			continue
		}
		name := fn.Name.Name
		if fn.Recv != nil && len(fn.Recv.List) == 1 {
			name = baseName(fn.Recv.List[0].Type) + "." + name
		}
		first := set.Position(fn.Pos()).Line
		list = append(list, Function{
			Name: name, Place: fmt.Sprintf("%s:%d", file, first),
			Lines: set.Position(fn.End()).Line - first + 1, Nesting: nesting(fn.Body), Parameters: width(fn.Type.Params),
		})
	}
	return list
}

// nesting returns how deep body's deepest block is; body itself has depth one.
func nesting(body *ast.BlockStmt) int {
	deepest := 0
	var visit func(n ast.Node, depth int)
	visit = func(n ast.Node, depth int) {
		deepest = max(deepest, depth)
		ast.Inspect(n, func(c ast.Node) bool {
			switch c := c.(type) {
			case *ast.BlockStmt:
				if c == n {
					return true
				}
				visit(c, depth+1)
				return false
			case *ast.IfStmt:
				visitIf(c, depth, visit)
				return false
			}
			return true
		})
	}
	visit(body, 1)
	return deepest
}

// visitIf visits the parts of an if. What follows its else is as deep as the if.
func visitIf(s *ast.IfStmt, depth int, visit func(n ast.Node, depth int)) {
	if s.Init != nil {
		visit(s.Init, depth)
	}
	visit(s.Cond, depth)
	visit(s.Body, depth+1)
	switch e := s.Else.(type) {
	case *ast.IfStmt:
		visitIf(e, depth, visit)
	case *ast.BlockStmt:
		visit(e, depth+1)
	}
}
