package headers

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/cuda/dl"
)

// The constants of a header are read as a compiler does.
func TestConstants(t *testing.T) {
	const text = `
/* enum { NOT_THIS = 1 }; */
#define PLAIN 7
#define POINTER ((void*)0x02) // as a pointer
#define CALL(x) (x + 1)
#define TEXT "7"
#if 1
typedef enum thing_enum {
    ZERO,                 /**< none, as ( is not */
    ONE = 1, TWO,         // two
    HEX = 0x10u, NEXT,
    SHIFT = 1 << 4, MASK = (SHIFT | ONE) & ~0x1,
    MINUS = -5, AFTER,
    ALIAS = HEX,
    OLD DEPRECATED_ENUM("use, (another)") = 21, YOUNG,
    BIG = 0x7fffffff,
    UNKNOWN = sizeof(int), COUNTS_ON,
    KNOWN = 4
} thing;
#endif
enum class : int { SCOPED = 3 };
struct enumerated { int x; };
enum forward;
void f(enum thing x);
`
	want := map[string]int64{"PLAIN": 7, "POINTER": 2, "ZERO": 0, "ONE": 1, "TWO": 2, "HEX": 16, "NEXT": 17, "SHIFT": 16, "MASK": 16, "MINUS": -5, "AFTER": -4,
		"ALIAS": 16, "OLD": 21, "YOUNG": 22, "BIG": 0x7fffffff, "KNOWN": 4, "SCOPED": 3}
	if got := Constants(text); !maps.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// Any text is read without harm.
func FuzzConstants(f *testing.F) {
	f.Add("enum { A = (1 << 2) | B, C };")
	f.Add("enum { A = ((((( };\n#define X \\\n 1")
	f.Fuzz(func(t *testing.T, text string) { Constants(text) })
}

// A check finds the headers of a machine, and says what differs and what is missing.
func TestCheckSaysWhatDiffers(t *testing.T) {
	root := t.TempDir()
	write := func(path, text string) {
		t.Helper()
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("usr/local/cuda-13.0/include/cuda.h", "enum { CUDA_SUCCESS = 0, CUDA_ERROR_OUT_OF_MEMORY = 2 };\n#define CU_LAUNCH_PARAM_BUFFER_POINTER ((void*)0x01)\n")
	write("usr/local/cuda-13.0/include/other.h", "enum { CUDA_ERROR_UNKNOWN = 1 };")
	write("usr/lib/python3.12/site-packages/nvidia/cudnn/include/cudnn_graph.h", "enum { CUDNN_ATTR_POINTWISE_MODE = 1, CUDNN_ATTR_CONVOLUTION_COMP_TYPE = 100 };")
	write("usr/include/nccl.h", "enum { ncclFloat32 = 7, ncclFloat = 7 };")
	write("usr/include/library_types.h", "typedef enum cudaDataType_t { CUDA_R_32F = 0 } cudaDataType;")
	write("extra/cublasLt.h", "enum { CUBLASLT_EPILOGUE_BIAS = 4 };")
	write("extra/deeper/cublas.h", "enum { CUBLAS_STATUS_SUCCESS = 0 };")
	search := &dl.Search{Root: root, Getenv: func(key string) string { return map[string]string{"CPATH": "/extra"}[key] }}
	r := Check(Folders(search))
	if len(r.Files) != 5 || r.Compared != 8 || len(r.Differ) != 1 {
		t.Fatalf("got %v: %q, %v; want 5 headers, 8 compared, 1 that differs", r, r.Files, r.Differ)
	}
	want := Difference{"CUDNN_ATTR_POINTWISE_MODE", 0, 1, filepath.Join(root, "usr/lib/python3.12/site-packages/nvidia/cudnn/include/cudnn_graph.h")}
	if r.Differ[0] != want {
		t.Errorf("got %v, want %v", r.Differ[0], want)
	}
	if len(r.Missing) == 0 || !strings.Contains(r.String(), "8 of ") {
		t.Errorf("got %v with %d missing", r, len(r.Missing))
	}
	if none := Check(nil); none.String() != "no headers of CUDA on this machine" {
		t.Errorf("no folders: got %v", none)
	}
}

// headerName is a name of one of the vendor's constants.
var headerName = regexp.MustCompile(`^((CU|CUDA|CUDNN|CUBLAS|CUBLASLT|NVRTC)_[A-Z]\w+|nccl[A-Z]\w+)`)

// What the packages have is what Values says: each constant with a header's name beside it, each
// text that names a number, and each that Values names.
func TestPackagesHaveTheseValues(t *testing.T) {
	want := make(map[string]int64)
	byGo := make(map[string]Value)
	for _, v := range Values {
		if old, there := want[v.Name]; there && old != v.Want {
			t.Errorf("%s is %d and %d in the table", v.Name, old, v.Want)
		}
		want[v.Name] = v.Want
		if v.Go != "" {
			byGo[v.Go] = v
		}
	}
	folders, err := filepath.Glob("../*")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	compare := func(where, name string, got int64) {
		t.Helper()
		checked++
		if w, ok := want[name]; !ok {
			t.Errorf("%s: %s is not in the table", where, name)
		} else if w != got {
			t.Errorf("%s: %s is %d, want %d", where, name, got, w)
		}
	}
	for _, folder := range folders {
		files := parse(t, folder)
		constants := make(map[string]int64)
		for _, file := range files {
			ast.Inspect(file, func(n ast.Node) bool {
				spec, ok := n.(*ast.ValueSpec)
				if !ok || len(spec.Names) != 1 || len(spec.Values) != 1 {
					return true
				}
				value, ok := literal(spec.Values[0])
				if !ok {
					return true
				}
				constants[spec.Names[0].Name] = value
				where := filepath.Base(folder) + "." + spec.Names[0].Name
				if name := headerName.FindString(strings.TrimSpace(spec.Comment.Text())); name != "" {
					compare(where, name, value)
				}
				if v, ok := byGo[where]; ok {
					compare(where, v.Name, value)
					delete(byGo, where)
				}
				return true
			})
		}
		for _, file := range files {
			ast.Inspect(file, func(n ast.Node) bool {
				pair, ok := n.(*ast.KeyValueExpr)
				if !ok {
					return true
				}
				text, ok := pair.Value.(*ast.BasicLit)
				if !ok || text.Kind != token.STRING {
					return true
				}
				name, err := strconv.Unquote(text.Value)
				if err != nil || headerName.FindString(name) != name {
					return true
				}
				key, ok := literal(pair.Key)
				if id, isName := pair.Key.(*ast.Ident); isName {
					key, ok = constants[id.Name]
				}
				if ok {
					compare(filepath.Base(folder), name, key)
				}
				return true
			})
		}
	}
	for where, v := range byGo {
		t.Errorf("the table has %s for %s, which is not there", where, v.Name)
	}
	if checked < 100 {
		t.Errorf("only %d constants were checked", checked)
	}
}

// parse reads the Go files of a folder that are not tests.
func parse(t *testing.T, folder string) []*ast.File {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") || filepath.Base(folder) == "headers" {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return files
}

// literal is the value of a plain number.
func literal(e ast.Expr) (int64, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.INT {
		return 0, false
	}
	v, err := strconv.ParseInt(lit.Value, 0, 64)
	return v, err == nil
}
