package count

import (
	"go/ast"
	"slices"
	"strings"
)

// A Type has the figures of a declared type.
type Type struct {
	// Name has the package's path before it.
	Name string

	// Methods counts the methods of the type and of its pointer in all files; those of an
	// interface are the ones that it lists. What an embedded type brings is not counted.
	Methods int

	// Fields counts the names of a struct's fields; an embedded type is one.
	Fields int
}

// A typeTable collects a package's types. Files for several systems may declare a type or a method
// once more: each name counts once.
type typeTable struct {
	methods map[string]map[string]bool
	fields  map[string]int
}

func newTypeTable() *typeTable {
	return &typeTable{methods: map[string]map[string]bool{}, fields: map[string]int{}}
}

func (t *typeTable) add(f *ast.File) {
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv != nil && len(d.Recv.List) == 1 {
				t.addMethod(baseName(d.Recv.List[0].Type), d.Name.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if s, ok := spec.(*ast.TypeSpec); ok {
					t.addType(s)
				}
			}
		}
	}
}

func (t *typeTable) addType(s *ast.TypeSpec) {
	name := s.Name.Name
	t.fields[name] = max(t.fields[name], 0)
	switch e := s.Type.(type) {
	case *ast.StructType:
		t.fields[name] = max(t.fields[name], width(e.Fields))
	case *ast.InterfaceType:
		for _, m := range e.Methods.List {
			for _, n := range m.Names {
				t.addMethod(name, n.Name)
			}
		}
	}
}

func (t *typeTable) addMethod(of, method string) {
	if t.methods[of] == nil {
		t.methods[of] = map[string]bool{}
	}
	t.methods[of][method] = true
}

func (t *typeTable) list(pkg string) (list []Type) {
	for name, fields := range t.fields {
		list = append(list, Type{Name: pkg + "." + name, Methods: len(t.methods[name]), Fields: fields})
	}
	slices.SortFunc(list, func(a, b Type) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// width counts the names of a list of fields or parameters; one without names counts once.
func width(l *ast.FieldList) (n int) {
	for _, f := range l.List {
		n += max(1, len(f.Names))
	}
	return n
}

// baseName is the name of a receiver's type without pointer and type parameters.
func baseName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return baseName(e.X)
	case *ast.ParenExpr:
		return baseName(e.X)
	case *ast.IndexExpr:
		return baseName(e.X)
	case *ast.IndexListExpr:
		return baseName(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
