package lint

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"slices"
	"strings"
	"testing"
)

// A host's wall clock may jump, by hours: somebody sets it, or the time service does. Times of
// package time carry the monotonic clock's reading, too, and are compared by it; these calls lose
// it, or make a time without. Besides these only certificates go by the wall clock: a jump of less
// than a day back, or of a year ahead, does nothing to them, and none to connections that are
// there.
var wallCalls = []string{"Unix", "UnixNano", "UnixMilli", "UnixMicro", "ModTime", "AddDate", "UTC", "time.Parse", "time.ParseInLocation", "time.Date"}

// wall has the files that may ask for the wall clock's time, and why a jump does no harm.
var wall = map[string]string{
	"internal/store/shardserver/clock.go":        "where a clock begins that goes on by the monotonic one",
	"internal/observe/telemetry/clock.go":        "where a clock begins that goes on by the monotonic one",
	"internal/member/scheduler/job.go":           "where a clock begins that goes on by the monotonic one, and the number of a start",
	"internal/member/scheduler/telemetry.go":     "where a clock begins that goes on by the monotonic one, and the number of a start",
	"kvstore/report.go":                          "the stamp of a step or a checkpoint, for charts",
	"internal/hosts/agent/question.go":           "the time of a folder, which is set to what it is",
	"internal/member/scheduler/eventlog.go":      "the stamp of an event, for people; its number says what comes after what",
	"internal/member/scheduler/slow.go":          "since when a worker has been slow, for people",
	"tune/recorder.go":                           "the stamp of an event, for people; its number says what comes after what",
	"launch/internal/top/screen.go":              "the stamp of an event, for people; its number says what comes after what",
	"tune/encode.go":                             "as it stands in the log",
	"tune/study/deadline.go":                     "a deadline is a time of the clock on the wall, and follows it when it is set",
	"tune/internal/state/state.go":               "with its size, whether a file was written anew since the last report",
	"tune/internal/jsonline/scan.go":             "as it is read from the log",
	"internal/observe/trace/chrome.go":           "the stamp of what is shown, for people",
	"launch/internal/jobpage/feed.go":            "since when the scheduler does not answer, for people",
	"launch/internal/otel/follow.go":             "the stamps of spans; a jump makes the scheduler's be wrong by it, for people",
	"launch/internal/otel/oteltest/collector.go": "stamps of spans, as they came",
	"launch/internal/spot/aws.go":                "when a machine is taken away, by its provider's clock; a time that cannot be is not used",
	"launch/internal/command/run/page.go":        "when launch was started, for people",
	"tune/internal/searchpage/page.go":           "when a search was started, for people",
	"internal/observe/page/pagetest/job.go":      "the beginning of a made-up job",
	"metrics/event.go":                           "stamps in a file, for charts",
	"metrics/eventfile.go":                       "a file's name, which sorts behind those that are there whatever the clock says",
	"tune/show/files.go":                         "stamps in a file, for charts",
	"bench/soak/main.go":                         "a seed",
	"tools/wheel/main.go":                        "the time of files in a wheel, which SOURCE_DATE_EPOCH gives",

	"checkpoint/bucket/store.go":           "with its size, whether an object was written anew",
	"internal/files/objects/cacheblock.go": "which block was used last, for which is removed first",
	"internal/files/objects/cachespace.go": "which block was used last, for which is removed first",
	"internal/files/objects/lists.go":      "how old a list is; after a jump it is made anew, or used for longer",
	"internal/files/objects/local.go":      "with its size, whether a file was written anew",

	"bench/gpucheck/parent.go":            "when a report was begun, for people",
	"internal/compute/cuda/fake/build.go": "how long the tests' cache has been left alone",
}

// wallTimes lists the calls of one file that depend on the wall clock.
func wallTimes(set *token.FileSet, f *ast.File) (found []string) {
	if !slices.ContainsFunc(f.Imports, func(i *ast.ImportSpec) bool {
		return i.Path.Value == `"time"` || i.Path.Value == `"os"` || i.Path.Value == `"io/fs"`
	}) {
		return nil
	}
	ast.Inspect(f, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		of, _ := sel.X.(*ast.Ident)
		name := sel.Sel.Name
		if of != nil && of.Name == "time" && !slices.Contains(wallCalls, name) {
			name = "time." + name
		}
		if of != nil && of.Name == "time" && name == "Unix" && !slices.ContainsFunc(call.Args, func(a ast.Expr) bool { _, lit := a.(*ast.BasicLit); return !lit }) {
			// The time has passed by every clock.
			return true
		}
		if slices.Contains(wallCalls, name) || name == "Round" && len(call.Args) == 1 && isZero(call.Args[0]) {
			found = append(found, fmt.Sprintf("%s: %s", set.Position(call.Pos()), name))
		}
		return true
	})
	return found
}

func isZero(e ast.Expr) bool {
	lit, ok := e.(*ast.BasicLit)
	return ok && lit.Value == "0"
}

func TestNothingButStampsDependsOnTheWallClock(t *testing.T) {
	unused := maps.Clone(wall)
	theRepository(t).code(func(f *sourceFile) {
		found := f.wallTimes
		if len(found) > 0 && wall[f.name] == "" {
			t.Errorf("%s depends on the wall clock, which may jump: use time.Since and the like, or say in the table why a jump does no harm", strings.Join(found, ", "))
		}
		if len(found) > 0 {
			delete(unused, f.name)
		}
	})
	for name := range unused {
		t.Errorf("%s no longer depends on the wall clock: take it out of the table", name)
	}
}

func TestWallTimesAreFound(t *testing.T) {
	for _, tc := range []struct {
		code string
		want int
	}{
		{"n := time.Now().UnixNano(); _ = n", 1},
		{"var a time.Time; _ = a.Unix()", 1},
		{"_ = time.Unix(3, 0)", 0},
		{"var n int64; _ = time.Unix(n, 0)", 1},
		{"_ = time.Since(time.Now())", 0},
		{"_ = time.Now().Round(0)", 1},
		{"_ = time.Now().Round(time.Second)", 0},
		{"_, _ = time.Parse(``, ``)", 1},
		{"i, _ := os.Stat(``); _ = i.ModTime()", 1},
	} {
		found := wallTimes(parseText(t, "x.go", "package x\nimport (\"os\"; \"time\")\nvar _ = os.Stat\nvar _ time.Time\nfunc f() {"+tc.code+"}"))
		if len(found) != tc.want {
			t.Errorf("%s: got %q, want %d", tc.code, found, tc.want)
		}
	}
}
