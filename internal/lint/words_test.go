package lint

import (
	"go/ast"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// notYet are folders and files that have not been looked through yet. It shall be empty.
var notYet []string

// phrases must not come back into comments, strings or documents: riddles that were in this
// repository, and words for which the field has others. pattern is a regular expression over the
// text in lower case with its line breaks as spaces, and every match contains part (an expression
// that is tried on every text would make the test slow).
var phrases = []struct{ part, pattern, instead string }{
	{"without a word", `\bwithout a word\b`, "silently, without a leave request, without a heartbeat: say what is missing"},
	{"for lost", `\b(hold|holds|held|take|takes|took|taken) ((a|the|this|that) )?((it|them|him|node|worker|server|nobody|all) )?for lost\b`, "declare lost: the scheduler declares a node lost when its lease expires"},
	{"in order", `\b(leave|leaves|left|leaving|end|ends|ended|stop|stops|stopped|finish|finishes|finished),? in order( and\b| when\b| if\b|[,.;:)"]|$)`,
		"cleanly; or say which: with code 0, after Close, with a checkpoint"},
	{"news tell", `\bnews tells?\b`, "say which message it is and what it says"},
	{"it did counts", `\ball (that )?it did counts\b`, "its acknowledged steps still count"},
	{"was decided", `\bwhat was decided can ?not be kept\b`, "the journal write failed"},
	{"somebody else than", `\bfor somebody else than\b`, "because a process other than"},
	{"its leaving is", `\bthat its leaving is\b`, "until the step at which its departure takes effect"},
	{"follow from its", `\bfailures follow from its\b`, "the other processes failed because this one did"},
	{"waits for anybody", `\bnobody waits for anybody\b`, "no one is waiting"},
	{"images that it draws", `\bimages that it draws\b`, "synthetic images"},
	{" says of a", `\bwhat \w+ says of an? [\w ]+ (store|job) holds\b`, "as with Save, ...: repeat the rule"},
	{"scheduler's word", `\bscheduler's word\b`, "say what the scheduler reported"},
	{" in turn", `\bof two \w+ in turn\b`, "of two successive ones"},
	{"greet", `\bgreet(s|ing)? (new )?servers?\b`, "say what is sent: set optimizer on new servers"},
	{"can not", `\bcan not\b`, "cannot"},
	{"scheduler's view", `\bscheduler's view\b`, "the membership"},
	{"membership ", `\bmembership (view|term)s?\b`, "generation: the version of the membership"},
	{"stopping rule", `\bstopping rules?\b`, "pruner: what stops a trial early"},
}

// names must not come back as names of types or of Go files: they do not say what a thing is.
var names = []struct{ name, instead string }{
	{"alone", "inProcess"},
	{"bells", "doorbell"},
	{"bout", "comparison"},
	{"caught", "guardLog"},
	{"copiers", "replicator"},
	{"crew", "callPool"},
	{"flight", "say what is under way"},
	{"fold", "aggregate"},
	{"gate", "inFlight, barrier"},
	{"kept", "unreplicatedPushes; say what is kept"},
	{"landing", "answerBuffers"},
	{"lookout", "opWatcher"},
	{"meet", "say what is exchanged"},
	{"meeting", "barrier"},
	{"offender", "caughtWorker"},
	{"own", "say whose what it is"},
	{"paper", "dryRun"},
	{"parting", "leaveRequest"},
	{"placer", "placementSource"},
	{"placing", "placement"},
	{"room", "say what the memory is for"},
	{"settle", "lossReporter; say what is settled"},
	{"settling", "lossReporter"},
	{"silence", "lease"},
	{"spares", "freeList"},
	{"standing", "position, replicaState"},
	{"stranger", "unauthenticatedConn"},
	{"strangers", "unauthenticatedConns"},
}

// membershipNames must not name types, variables and fields where they would be the membership's.
var membershipNames = map[string]string{"view": "membership", "term": "generation"}

// membershipFolders are the folders that deal with memberships.
var membershipFolders = []string{"internal/member/cluster", "internal/member/servernode", "internal/store/shardserver", "internal/store/shard", "kvstore", "internal/member/scheduler", "schedulernode", "server", "worker"}

// A finding is a word that must not come back.
type finding struct{ at, text, instead string }

var compiled = func() (all []*regexp.Regexp) {
	for _, p := range phrases {
		all = append(all, regexp.MustCompile(p.pattern))
	}
	return all
}()

// badPhrases looks into one text.
func badPhrases(at, text string) (found []finding) {
	text = strings.ToLower(strings.Join(strings.Fields(text), " "))
	for i, p := range phrases {
		if !strings.Contains(text, p.part) {
			continue
		}
		if s := compiled[i].FindString(text); s != "" {
			found = append(found, finding{at, s, p.instead})
		}
	}
	return found
}

// badWords looks into the comments, strings and names of a Go file. folder is the file's folder in
// the repository.
func badWords(folder, file string, fset *token.FileSet, f *ast.File) (found []finding) {
	for _, g := range f.Comments {
		found = append(found, badPhrases(fset.Position(g.Pos()).String(), g.Text())...)
	}
	name := func(at token.Pos, text string) {
		for _, n := range names {
			if text == n.name {
				found = append(found, finding{fset.Position(at).String(), text, n.instead})
			}
		}
	}
	base, _, _ := strings.Cut(strings.TrimSuffix(filepath.Base(file), ".go"), "_")
	name(f.Package, base)
	variables := func(ids []*ast.Ident) {
		for _, id := range ids {
			if instead := membershipNames[id.Name]; instead != "" && slices.Contains(membershipFolders, folder) {
				found = append(found, finding{fset.Position(id.Pos()).String(), id.Name, instead})
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			if n.Kind == token.STRING {
				found = append(found, badPhrases(fset.Position(n.Pos()).String(), n.Value)...)
			}
		case *ast.TypeSpec:
			name(n.Name.Pos(), n.Name.Name)
			variables([]*ast.Ident{n.Name})
		case *ast.Field:
			variables(n.Names)
		case *ast.ValueSpec:
			variables(n.Names)
		case *ast.AssignStmt:
			for _, e := range n.Lhs {
				if id, ok := e.(*ast.Ident); ok && n.Tok == token.DEFINE {
					variables([]*ast.Ident{id})
				}
			}
		}
		return true
	})
	return found
}

// wordless are files without a sentence of ours, or that list the words.
var wordless = []string{"internal/lint/words_test.go", "CHANGELOG.md"}

func TestOddWordsDoNotComeBack(t *testing.T) {
	for _, file := range theRepository(t).files {
		if file.isTestdata() || slices.Contains(wordless, file.name) || slices.ContainsFunc(notYet, func(n string) bool { return file.name == n || file.within(n) }) {
			continue
		}
		for _, f := range file.words {
			t.Errorf("%s: %q is not plain: %s", f.at, f.text, f.instead)
		}
	}
}

func TestOddWordsAreFound(t *testing.T) {
	for _, c := range []struct {
		file, code string
		want       int
	}{
		{"x.go", "// It died without\n// a word.\nvar x int", 1},
		{"x.go", "// The scheduler takes it for lost.\nvar x int", 1},
		{"x.go", `var s = "worker 1 was held for lost"`, 1},
		{"x.go", "// All workers stopped in order, with a checkpoint.\nvar x int", 1},
		{"x.go", "// Contributions are added in rank order and end in order to repeat.\nvar x int", 0},
		{"x.go", "// The list ends in order of rank.\nvar x int", 0},
		{"x.go", "// It can not be.\nvar x int", 1},
		{"x.go", "// It cannot notify.\nvar x int", 0},
		{"x.go", "type crew struct{}", 1},
		{"x.go", "type flightRecorder struct{}", 0},
		{"lookout_test.go", "var x int", 1},
		{"parting.go", "var x int", 1},
		{"party.go", "var x int", 0},
		{"x.go", "type a struct { term uint64 }", 1},
		{"x.go", "func f() { view := 1; _ = view }", 1},
		{"x.go", "// f views bytes as numbers, a term of the sum.\nfunc f() {}", 0},
		{"x.go", "// All a worker lost is its place for lost time.\nvar x int", 0},
	} {
		set, f := parseText(t, c.file, "package x\n"+c.code+"\n")
		if found := badWords("kvstore", c.file, set, f); len(found) != c.want {
			t.Errorf("%s: %q: found %v, want %d", c.file, c.code, found, c.want)
		}
	}
}
