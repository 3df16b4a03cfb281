package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"io/fs"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// source parses a package's files, tests left out.
func (g generator) source(folder string) (*token.FileSet, []*ast.File, error) {
	set := token.NewFileSet()
	pkgs, err := parser.ParseDir(set, filepath.Join(g.root, folder), func(i fs.FileInfo) bool { return !strings.HasSuffix(i.Name(), "_test.go") }, parser.ParseComments)
	if err != nil {
		return nil, nil, err
	}
	var files []*ast.File
	for _, p := range pkgs {
		for _, f := range p.Files {
			files = append(files, f)
		}
	}
	slices.SortFunc(files, func(a, b *ast.File) int {
		return strings.Compare(set.File(a.Pos()).Name(), set.File(b.Pos()).Name())
	})
	return set, files, nil
}

// fields is a table of the JSON fields of a struct.
func (g generator) fields(folder, name string) (string, error) {
	_, files, err := g.source(folder)
	if err != nil {
		return "", err
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
					return fieldTable(st)
				}
			}
		}
	}
	return "", fmt.Errorf("there is no struct %s in %s", name, folder)
}

func fieldTable(st *ast.StructType) (string, error) {
	var b strings.Builder
	b.WriteString("| field | JSON | meaning |\n| --- | --- | --- |\n")
	for _, f := range st.Fields.List {
		tag := ""
		if f.Tag != nil {
			text, err := strconv.Unquote(f.Tag.Value)
			if err != nil {
				return "", err
			}
			tag = reflect.StructTag(text).Get("json")
		}
		names := f.Names
		if len(names) == 0 {
			names = []*ast.Ident{{Name: typeText(f.Type)}}
		}
		for _, n := range names {
			if !n.IsExported() && len(f.Names) > 0 || tag == "-" {
				continue
			}
			name, options, _ := strings.Cut(tag, ",")
			if name == "" {
				name = n.Name
			}
			kind := jsonType(f.Type)
			if strings.Contains(options, "omit") {
				kind += ", may be missing"
			}
			text := strings.TrimSpace(f.Doc.Text() + " " + f.Comment.Text())
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", name, kind, cell(text))
		}
	}
	return b.String(), nil
}

func typeText(e ast.Expr) string {
	var b strings.Builder
	_ = printer.Fprint(&b, token.NewFileSet(), e) // a strings.Builder takes everything
	return b.String()
}

// jsonType is what encoding/json makes of a type. A type of the project is named as it is; its own table has the rest.
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

// constants is a table of the constants of a type with their comments. In a block without types they are those that follow one of the type.
func (g generator) constants(folder, name string) (string, error) {
	_, files, err := g.source(folder)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("| value | meaning |\n| --- | --- |\n")
	rows := 0
	for _, f := range files {
		for _, d := range f.Decls {
			decl, ok := d.(*ast.GenDecl)
			if !ok || decl.Tok != token.CONST {
				continue
			}
			for _, s := range decl.Specs {
				spec := s.(*ast.ValueSpec)
				if spec.Type == nil || typeText(spec.Type) != name {
					continue
				}
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
					fmt.Fprintf(&b, "| `%s` | %s |\n", value, cell(spec.Doc.Text()+" "+spec.Comment.Text()))
					rows++
				}
			}
		}
	}
	if rows == 0 {
		return "", fmt.Errorf("there are no constants of type %s in %s", name, folder)
	}
	return b.String(), nil
}
