package outcomes

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// shortCores are those of a job that ends at once, with the exit code that exit has for its number
// of workers.
type shortCores struct {
	Cores
	exit func(workers int) int
}

type shortLauncher struct {
	code int
	done bool
}

func (c shortCores) Launcher(j *Job, _ time.Time, _ *Files) Launcher {
	return &shortLauncher{code: c.exit(len(j.Workers))}
}

func (l *shortLauncher) Step(time.Time, any) []any {
	if l.done {
		return nil
	}
	l.done = true
	return []any{End{}}
}
func (l *shortLauncher) Next() time.Time { return time.Time{} }
func (l *shortLauncher) Result() Result  { return Result{Code: l.code, Phase: "starting"} }

// A record finds the seeds whose outcome differs, shows what was and what is, and counts those that
// are meant to differ.
func TestRecordFindsWhatDiffers(t *testing.T) {
	folder := t.TempDir()
	if err := WriteRecord(folder, 50, 10, shortCores{exit: func(int) int { return 0 }}); err != nil {
		t.Fatal(err)
	}
	r, err := ReadRecord(folder, "")
	if err != nil {
		t.Fatal(err)
	}
	if c := r.Compare(0, r.Seeds(), shortCores{exit: func(int) int { return 0 }}, nil); c.Seeds != 50 || len(c.Differing)+len(c.Explained) > 0 {
		t.Fatalf("the same cores: got %+v, want 50 seeds and no difference", c)
	}
	other := shortCores{exit: func(workers int) int { return workers / 4 }}
	var want []uint64
	for seed := range r.Seeds() {
		if len(NewPlan(seed).Job.Workers) >= 4 {
			want = append(want, seed)
		}
	}
	if c := r.Compare(0, r.Seeds(), other, nil); !slices.Equal(c.Differing, want) {
		t.Fatalf("got differences for %d, want %d", c.Differing, want)
	}
	text := r.SideBySide(want[0], other)
	if !strings.Contains(text, "IS     end: exit code 1, starting") || want[0] < 10 && !strings.Contains(text, "WAS    end: exit code 0, starting") {
		t.Errorf("seed %d: got\n%s", want[0], text)
	}
	table := []Intended{{Name: "five", Reason: "jobs of five workers end with 1", Explains: func(d *Difference) bool {
		was := slices.Clone(d.Is)
		was[len(was)-1] = "end: exit code 0, starting"
		return len(d.Plan.Job.Workers) == 5 && d.Would(was)
	}}}
	c := r.Compare(0, r.Seeds(), other, table)
	if c.Explained["five"] == 0 || c.Explained["five"]+len(c.Differing) != len(want) {
		t.Errorf("got %+v, want some of %d differences explained", c, len(want))
	}
}

// A record that is damaged is an error.
func TestDamagedRecordIsRefused(t *testing.T) {
	folder := t.TempDir()
	if err := WriteRecord(folder, 2, 2, shortCores{exit: func(int) int { return 0 }}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{othersFile, textsFile, digestsFile} {
		file := filepath.Join(folder, name)
		if err := os.WriteFile(file, []byte("no such thing"), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadRecord(folder, ""); name != digestsFile && err == nil {
			t.Errorf("%s: want an error", name)
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadRecord(folder, ""); err == nil {
			t.Errorf("without %s: want an error", name)
		}
		if err := WriteRecord(folder, 2, 2, shortCores{exit: func(int) int { return 0 }}); err != nil {
			t.Fatal(err)
		}
	}
}

// Plans of many seeds have every act that there is, and each seed has one plan.
func TestPlansHaveEveryAct(t *testing.T) {
	seen := make(map[string]int)
	for seed := range uint64(3000) {
		p := NewPlan(seed)
		if a, b := fmt.Sprint(p, p.Groups), fmt.Sprint(NewPlan(seed), NewPlan(seed).Groups); a != b {
			t.Fatalf("seed %d: got %s, then %s", seed, a, b)
		}
		for _, g := range p.Groups {
			for _, a := range g {
				if seen[a.Kind]++; a.Kind == "ctl" {
					seen[a.Command.Do]++
				}
			}
		}
	}
	for _, kind := range []string{"add", "remove", "scale", "place", "add-server", "remove-server", "stop", "edit add", "edit remove", "wish",
		"kill worker", "worker fails", "worker ends", "worker fails finally", "worker is told to end", "worker stands still",
		"kill server", "server fails", "server stands still", "kill scheduler", "scheduler fails", "scheduler stands still", "scheduler is told to end",
		"link cut", "answers lost", "messages repeated", "crash on", "slow on",
		"host lost", "host lost silently", "host refuses", "notice", "notice withdrawn", "at risk",
		"signal", "signal twice", "usr1", "cancel", "training ends"} {
		if seen[kind] == 0 {
			t.Errorf("no plan has the act %q", kind)
		}
	}
}

// Rewrites has every combination of what may have been.
func TestRewritesCombine(t *testing.T) {
	var got []string
	for rests := range Rewrites([]string{"[a: ok] [b: ok]", "x", "[c: no]"}, regexp.MustCompile(`\[\w: (ok)\]`), "later", "refused") {
		got = append(got, strings.Join(rests, "/"))
	}
	slices.Sort(got)
	want := []string{"[a: later] [b: later]/x/[c: no]", "[a: later] [b: ok]/x/[c: no]", "[a: later] [b: refused]/x/[c: no]",
		"[a: ok] [b: later]/x/[c: no]", "[a: ok] [b: ok]/x/[c: no]", "[a: ok] [b: refused]/x/[c: no]",
		"[a: refused] [b: later]/x/[c: no]", "[a: refused] [b: ok]/x/[c: no]", "[a: refused] [b: refused]/x/[c: no]"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Outcomes part for what was done before the rest at which they part, or before the end.
func TestOutcomesPartForTheActsBeforeThat(t *testing.T) {
	link, scale := []Act{{Kind: "link cut"}}, []Act{{Kind: "ctl", Command: Command{Do: "scale"}}}
	p := &Plan{Groups: [][]Act{link, scale}}
	was := []string{"begun", "1", "2", "end: 3"}
	for part, want := range [][]Act{nil, link, scale, scale} {
		is := slices.Clone(was)
		if is[part] = "x"; part == 3 {
			is[part] = "end: x"
		}
		d := &Difference{Plan: p, Was: was, Is: is}
		if got := d.Acts(); !reflect.DeepEqual(got, want) || d.Part() != part {
			t.Errorf("parted at rest %d of %d: got the acts %v, want %v", d.Part(), part, got, want)
		}
	}
	if d := (&Difference{Plan: p, Is: was}); d.Acts() != nil || scale[0].OfKind() != "scale" {
		t.Errorf("a difference of which the text is not known: got the acts %v, want none", d.Acts())
	}
}
