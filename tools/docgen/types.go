package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
)

// source parses a package's files, tests left out.
func (g generator) source(folder string) (*token.FileSet, []*ast.File, error) {
	set := token.NewFileSet()

	// entries are by name.
	entries, err := os.ReadDir(filepath.Join(g.root, folder))
	if err != nil {
		return nil, nil, err
	}
	var files []*ast.File
	for _, e := range entries {
		if e.IsDir() || !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		f, err := parser.ParseFile(set, filepath.Join(g.root, folder, e.Name()), nil, parser.ParseComments)
		if err != nil {
			return nil, nil, err
		}
		files = append(files, f)
	}
	return set, files, nil
}

// structOf finds a struct.
func (g generator) structOf(folder, name string) (*ast.StructType, error) {
	_, files, err := g.source(folder)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		for _, d := range f.Decls {
			decl, ok := d.(*ast.GenDecl)
			if !ok || decl.Tok != token.TYPE {
				continue
			}
			for _, s := range decl.Specs {
				spec := s.(*ast.TypeSpec)
				if st, ok := spec.Type.(*ast.StructType); ok && spec.Name.Name == name {
					return st, nil
				}
			}
		}
	}
	return nil, fmt.Errorf("there is no struct %s in %s", name, folder)
}

// A jsonField is a field as encoding/json sees it.
type jsonField struct {
	// goName and name are empty for the fields of an embedded struct.
	goName, name string

	kind     string
	optional bool
	comment  string
}

// jsonFields are the exported fields that encoding/json writes, in the order of the struct.
// Comments above a field and behind it count.
func jsonFields(st *ast.StructType) (fields []jsonField, err error) {
	for _, f := range st.Fields.List {
		tag := ""
		if f.Tag != nil {
			text, err := strconv.Unquote(f.Tag.Value)
			if err != nil {
				return nil, err
			}
			tag = reflect.StructTag(text).Get("json")
		}
		field := jsonField{kind: jsonType(f.Type), comment: f.Doc.Text() + " " + f.Comment.Text()}
		name, options, _ := strings.Cut(tag, ",")
		field.optional = strings.Contains(options, "omit")
		if len(f.Names) == 0 && tag == "" {
			field.kind = "the fields of `" + strings.TrimPrefix(typeText(f.Type), "*") + "`"
			fields = append(fields, field)
		}
		for _, n := range f.Names {
			if n.IsExported() && tag != "-" {
				field.goName, field.name = n.Name, cmp.Or(name, n.Name)
				fields = append(fields, field)
			}
		}
	}
	return fields, nil
}

// inJSON is a comment in Go in the words of JSON: fields by their names there, nothing is nil.
func inJSON(comment string, fields []jsonField) string {
	return goWord.ReplaceAllStringFunc(comment, func(word string) string {
		if word == "nil" {
			return "missing"
		}
		for _, f := range fields {
			if f.goName == word {
				return "`" + f.name + "`"
			}
		}
		return word
	})
}

var goWord = regexp.MustCompile(`[\p{L}\p{N}_]+`)

// fields is a table of the JSON fields of a struct.
func (g generator) fields(folder, name string) (string, error) {
	st, err := g.structOf(folder, name)
	if err != nil {
		return "", err
	}
	all, err := jsonFields(st)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("| field | JSON | meaning |\n| --- | --- | --- |\n")
	for _, f := range all {
		title, kind := "", f.kind
		if f.name != "" {
			title = "`" + f.name + "`"
		}
		if f.optional {
			kind += ", may be missing"
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", title, kind, cell(inJSON(f.comment, all)))
	}
	return b.String(), nil
}

// typeText is a type as Go writes it.
func typeText(e ast.Expr) string {
	var b strings.Builder

	// A strings.Builder takes everything.
	_ = printer.Fprint(&b, token.NewFileSet(), e)
	return b.String()
}

// jsonType is what encoding/json makes of a type. A type of the project is named as it is; its own
// table has the rest.
func jsonType(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return jsonType(e.X)
	case *ast.ArrayType:
		if typeText(e.Elt) == "byte" {
			return "string (base64)"
		}
		return "array of " + jsonType(e.Elt)
	case *ast.MapType:
		return "object of " + jsonType(e.Value)
	}
	switch t := typeText(e); t {
	case "string":
		return "string"
	case "bool":
		return "boolean"
	case "int", "int8", "int16", "int32", "int64", "uint", "uint8", "uint16", "uint32", "uint64":
		return "integer"
	case "float32", "float64":
		return "number"
	case "time.Time":
		return "string (RFC 3339)"
	case "time.Duration":
		return "integer (nanoseconds)"
	default:
		return "`" + t + "`"
	}
}

// constants is a table of the constants of a type with their comments, which name constants by
// their values. of is the struct whose fields the comments name; empty: none.
func (g generator) constants(folder, name, of string) (string, error) {
	var names []jsonField
	if of != "" {
		st, err := g.structOf(folder, of)
		if err != nil {
			return "", err
		}
		if names, err = jsonFields(st); err != nil {
			return "", err
		}
	}
	_, files, err := g.source(folder)
	if err != nil {
		return "", err
	}
	specs := constantsOf(files, name)
	for _, spec := range specs {
		for i, v := range spec.Values {
			if lit, ok := v.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				names = append(names, jsonField{goName: spec.Names[i].Name, name: strings.Trim(lit.Value, `"`)})
			}
		}
	}
	var b strings.Builder
	b.WriteString("| value | meaning |\n| --- | --- |\n")
	rows := 0
	for _, spec := range specs {
		for _, v := range spec.Values {
			lit, ok := v.(*ast.BasicLit)
			if !ok {
				continue
			}
			value := lit.Value
			if lit.Kind == token.STRING {
				if value, err = strconv.Unquote(value); err != nil {
					return "", err
				}
			}
			fmt.Fprintf(&b, "| `%s` | %s |\n", value, cell(inJSON(spec.Doc.Text()+" "+spec.Comment.Text(), names)))
			rows++
		}
	}
	if rows == 0 {
		return "", fmt.Errorf("there are no constants of type %s in %s", name, folder)
	}
	return b.String(), nil
}

// constantsOf are the declarations of constants of a type, in the order of the files.
func constantsOf(files []*ast.File, name string) (specs []*ast.ValueSpec) {
	for _, f := range files {
		for _, d := range f.Decls {
			decl, ok := d.(*ast.GenDecl)
			if !ok || decl.Tok != token.CONST {
				continue
			}
			for _, s := range decl.Specs {
				if spec := s.(*ast.ValueSpec); spec.Type != nil && typeText(spec.Type) == name {
					specs = append(specs, spec)
				}
			}
		}
	}
	return specs
}
