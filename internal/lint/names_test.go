package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Pages name functions, flags, variables and messages of ours. Each of them must be in the code.

// A sourceText is what the code has that documents name.
type sourceText struct {
	// packages are public ones, by the last part of their paths.
	packages map[string]*packageNames

	// words are string literals that are one word: names of flags, commands and variables.
	words map[string]bool

	// literals are all string literals, one on each line. What is filled in is a hole.
	literals strings.Builder

	files int
}

// packageNames are the exported names of a package.
type packageNames struct {
	// top are functions, types, constants and variables.
	top map[string]bool

	// members are fields and methods, by type.
	members map[string]map[string]bool

	// embeds are the types of the package that a type embeds.
	embeds map[string][]string

	// aliases are the types of other packages that names of this one stand for, as package and
	// name.
	aliases map[string][2]string
}

// has reports whether a type has a field or a method, perhaps by a type that it embeds.
func (p *packageNames) has(of, member string) bool {
	return p.members[of][member] || slices.ContainsFunc(p.embeds[of], func(e string) bool { return p.has(e, member) })
}

// has reports whether a type of a package has a field or a method, also where the type is another
// name of one of another package.
func (s *sourceText) has(pkg, of, member string) bool {
	p := s.packages[pkg]
	if p == nil {
		return false
	}
	if to, ok := p.aliases[of]; ok {
		return s.has(to[0], to[1], member)
	}
	return p.has(of, member)
}

// hole stands in literals for what is filled in.
const hole = "\x00"

func newSourceText() *sourceText {
	return &sourceText{packages: make(map[string]*packageNames), words: map[string]bool{
		"help":              true,                             // the command-line library's
		"PARAGON_CUDA_PATH": true, "PARAGON_CUDNN_PATH": true, // made of the library's name (internal/compute/cuda/dl)
	}}
}

// add adds what one file has.
func (s *sourceText) add(folder string, f *ast.File) {
	s.files++
	s.addLiterals(f)
	if public(folder) && f.Name.Name != "main" {
		s.addNames(f)
	}
}

// verbs are those of package fmt; a quoted one has its quotes in the message.
var verbs = regexp.MustCompile(`%[-+# 0-9.*\[\]]*[a-zA-Z]`)

func unverb(text string) string {
	if !strings.Contains(text, "%") {
		return text
	}
	text = strings.ReplaceAll(text, "%%", "\x01")
	text = verbs.ReplaceAllStringFunc(text, func(v string) string {
		if strings.HasSuffix(v, "q") {
			return `"` + hole + `"`
		}
		return hole
	})
	return strings.ReplaceAll(text, "\x01", "%")
}

func (s *sourceText) addLiterals(f *ast.File) {
	// text is that of a sum of literals.
	var text func(e ast.Expr) string
	text = func(e ast.Expr) string {
		switch e := e.(type) {
		case *ast.BasicLit:
			if t, err := strconv.Unquote(e.Value); err == nil && e.Kind == token.STRING {
				return t
			}
		case *ast.BinaryExpr:
			if e.Op == token.ADD {
				return text(e.X) + text(e.Y)
			}
		case *ast.ParenExpr:
			return text(e.X)
		}
		return "%v"
	}
	add := func(t string) {
		if strings.IndexFunc(t, func(r rune) bool {
			return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_')
		}) < 0 {
			s.words[t] = true
		}
		s.literals.WriteString(strings.Join(strings.Fields(unverb(t)), " ") + "\n")
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			if n.Op == token.ADD {
				add(text(n))
			}
		case *ast.BasicLit:
			if t, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING {
				add(t)
			}
		}
		return true
	})
}

func (s *sourceText) addNames(f *ast.File) {
	p := s.packages[f.Name.Name]
	if p == nil {
		p = &packageNames{make(map[string]bool), make(map[string]map[string]bool), make(map[string][]string), make(map[string][2]string)}
		s.packages[f.Name.Name] = p
	}
	member := func(of, name string) {
		if p.members[of] == nil {
			p.members[of] = make(map[string]bool)
		}
		p.members[of][name] = true
	}
	typeName := func(e ast.Expr) string {
		if star, ok := e.(*ast.StarExpr); ok {
			e = star.X
		}
		switch e := e.(type) {
		case *ast.Ident:
			return e.Name
		case *ast.SelectorExpr:
			return e.Sel.Name
		}
		return ""
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				p.top[d.Name.Name] = true
			} else {
				member(typeName(d.Recv.List[0].Type), d.Name.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.ValueSpec:
					for _, n := range spec.Names {
						p.top[n.Name] = true
					}
				case *ast.TypeSpec:
					of := spec.Name.Name
					p.top[of] = true
					var fields *ast.FieldList
					switch t := spec.Type.(type) {
					case *ast.StructType:
						fields = t.Fields
					case *ast.InterfaceType:
						fields = t.Methods
					case *ast.SelectorExpr:
						if from, ok := t.X.(*ast.Ident); ok && spec.Assign.IsValid() {
							p.aliases[of] = [2]string{from.Name, t.Sel.Name}
						}
						continue
					default:
						continue
					}
					for _, field := range fields.List {
						for _, n := range field.Names {
							member(of, n.Name)
						}
						if e := typeName(field.Type); len(field.Names) == 0 && e != "" {
							member(of, e)
							p.embeds[of] = append(p.embeds[of], e)
						}
					}
				}
			}
		}
	}
}

var (
	spanOfCode = regexp.MustCompile("`([^`]+)`")
	goName     = regexp.MustCompile(`(?:^|[^\w./])([a-z]+)\.([A-Z]\w*)(?:\.([A-Z]\w*))?`)
	flagName   = regexp.MustCompile(`(?:^|[\s(\[])--([a-z][a-z0-9-]*)`)
	variable   = regexp.MustCompile(`\b(?:PARAGON|DMLC|PS)_[A-Z0-9_]*[A-Z0-9]`)
	command    = regexp.MustCompile(`\blaunch (ctl|tune|slurm|k8s) ([a-z][a-z-]*)`)
	foreign    = regexp.MustCompile(`^(tensorboard|torchrun|horovodrun|kubectl|ssh|ssh-copy-id|rsync|mpirun|sbatch|squeue|srun|podman|gcloud|git|go) `)
)

// flagsOfOthers are flags of Slurm, mpirun, clouds' tools and MXNet's scripts that pages name by
// themselves, or within another command.
var flagsOfOthers = []string{"continuous", "exact", "filter", "jobid", "kv-store", "map-by", "mca", "no-kill", "ntasks", "open-mode", "overlap", "parsable", "prefix",
	"query", "show-details"}

// unknown are the names in a piece of code that the source does not have.
func (s *sourceText) unknown(code string) (missing []string) {
	for _, m := range goName.FindAllStringSubmatch(code, -1) {
		p := s.packages[m[1]]
		switch name := strings.TrimLeft(m[0], " \t\n([{&*!,:="); {
		// It is a variable's method, or another library.
		case p == nil:
		case !p.top[m[2]], m[3] != "" && !s.has(m[1], m[2], m[3]):
			missing = append(missing, name)
		}
	}
	if !foreign.MatchString(code) {
		for _, m := range flagName.FindAllStringSubmatch(code, -1) {
			if !s.words[m[1]] && !slices.Contains(flagsOfOthers, m[1]) {
				missing = append(missing, "--"+m[1])
			}
		}
	}
	for _, v := range variable.FindAllString(code, -1) {
		if !s.words[v] {
			missing = append(missing, v)
		}
	}
	for _, m := range command.FindAllStringSubmatch(code, -1) {
		if !s.words[m[2]] {
			missing = append(missing, m[0])
		}
	}
	return missing
}

// unknownNames looks into a page, line by line. In tables the first column has the names of other
// systems, or messages.
func (s *sourceText) unknownNames(page string) (missing []string) {
	block := ""
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		if lang, ok := strings.CutPrefix(line, "```"); ok {
			if block == "" {
				block = lang + "."
			} else {
				block = ""
			}
			continue
		}
		switch {
		case block == "go.":
			// A comment has what it was in the other system.
			code, _, _ := strings.Cut(line, "//")
			missing = append(missing, s.unknown(code)...)
			continue
		case block != "":
			missing = append(missing, s.unknown(line)...)
			continue
		case strings.HasPrefix(line, "|"):
			_, line, _ = strings.Cut(line[1:], "|")
		}
		for _, m := range spanOfCode.FindAllStringSubmatch(line, -1) {
			missing = append(missing, s.unknown(m[1])...)
		}
	}
	return missing
}

// namingPages are the documents whose names are looked up: those for users. Design notes speak of
// the past, too.
func namingPages(t *testing.T) []string {
	pages := []string{filepath.Join(root, "README.md")}
	for _, pattern := range []string{"*.md", "coming-from/*.md", "explanation/*.md", "how-to/*.md", "reference/*.md", "tutorials/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, "docs", filepath.FromSlash(pattern)))
		if err != nil || len(found) < 3 {
			t.Fatalf("got %d pages docs/%s, %v, want 3 and more", len(found), pattern, err)
		}
		pages = append(pages, found...)
	}
	return pages
}

func TestNamesInPagesAreInTheCode(t *testing.T) {
	s := theRepository(t).source
	if s.files < 500 || len(s.packages) < 15 {
		t.Fatalf("got %d files and %d public packages, want many more", s.files, len(s.packages))
	}
	for _, page := range namingPages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range s.unknownNames(string(text)) {
			t.Errorf("%s: %s is not in the code", page, m)
		}
	}
}

// goBlock is a piece of Go in a page, quotedBlock one that is in a file of its own: whole, or taken
// from it in parts.
var (
	goBlock     = regexp.MustCompile("(?s)```go\n(.*?)```")
	quotedBlock = regexp.MustCompile("(?s)<!-- (from|file): [^>]*-->\n```go\n.*?```")
)

func TestGoInPagesCanBeParsed(t *testing.T) {
	blocks := 0
	for _, page := range namingPages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range goBlock.FindAllStringSubmatch(quotedBlock.ReplaceAllString(string(text), ""), -1) {
			blocks++
			if _, err := parser.ParseFile(token.NewFileSet(), "block.go", "package p\nfunc f() {\n"+m[1]+"\n}", 0); err != nil {
				t.Errorf("%s: %v in\n%s", page, err, m[1])
			}
		}
	}
	if blocks < 7 {
		t.Errorf("got %d blocks of Go, want one on each page", blocks)
	}
}

func TestNamesThatAreNotInTheCodeAreFound(t *testing.T) {
	s := theRepository(t).source
	for page, want := range map[string]int{
		"`kvstore.Create(ctx, \"dist\")` and `kvstore.Store.Push`":  0,
		"`kvstore.Make` and `kvstore.Store.Shove`":                  2,
		"`optim.Config.LearningRate`, `tune.Param.Log`":             0,
		"`tune.Resources.Slots`":                                    0,
		"`tune.Resources.Slices`":                                   1,
		"`torch.optim.SGD`, `ray.tune.Tuner`, `mx.kvstore.KV`":      0,
		"`--num-workers`, `launch -n 2 --elastic-training-enabled`": 0,
		"`--number-of-workers`":                                     1,
		"`tensorboard --logdir x`":                                  0,
		"`--map-by node`, `srun --jobs 3`":                          0,
		"`PARAGON_LOG`, `DMLC_ROLE`, `PS_VERBOSE`, `DMLC_`":         0,
		"`PARAGON_LOUD`, `DMLC_ROLL`":                               2,
		"| `optim.SGD`, `--p3` | `optim.Config` | |":                0,
		"| `x` | `optim.SGD` | `--p3` |":                            2,
		"```go\nkvstore.Create(ctx) // kvstore.Make()\n```":         0,
		"```go\nx := &kvstore.Make{}\n```":                          1,
		"`launch ctl status`, `launch tune why`":                    0,
		"`launch ctl dance`":                                        1,
		"kvstore.Make in prose, which is no code":                   0,
	} {
		if got := s.unknownNames(page); len(got) != want {
			t.Errorf("%s: got %q, want %d", page, got, want)
		}
	}
}
