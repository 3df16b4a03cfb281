package docstest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const f = "```"

func TestPagesAreRead(t *testing.T) {
	p, err := Parse("page.md", `# A page
<!-- hosts: a1 a2 -->
1. In a list:

   <!-- exit: 3 -->
   <!-- replace: 10 => 1 -->
   `+f+`sh
   sleep 10
     exit 3
   `+f+`

   prints

   `+f+`text
   nothing
   `+f+`
<!-- not run: it needs a cluster -->
`+f+`sh
sbatch
`+f+`
`+f+`go
package x
`+f+`
<!-- file: a/b.yaml -->
`+f+`yaml
x: 1
`+f+`
`+f+`console
$ cat a/b.yaml |
> sort
x: 1
$ true
`+f+`
<!-- background: ready -->
<!-- timeout: 1m -->
`+f+`sh
serve
`+f+`
<!-- ctrl-c -->
`)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range p.Steps {
		got = append(got, s.Action+"|"+s.Text+"|"+strings.Join(s.Output, "/")+"|"+s.NotRun+s.File+s.Background)
	}
	want := []string{"hosts|a1 a2||", "block|sleep 1\n  exit 3\n|nothing|", "block|sbatch\n||it needs a cluster", "block|x: 1\n||a/b.yaml",
		"block|cat a/b.yaml |\nsort\ntrue\n|x: 1|", "block|serve\n||ready", "ctrl-c|||"}
	if strings.Join(got, "\n\n") != strings.Join(want, "\n\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n\n"), strings.Join(want, "\n\n"))
	}
	if s := p.Steps[1]; s.Exit != 3 || s.Line != 7 || s.Timeout != defaultTimeout || p.Steps[5].Timeout != time.Minute {
		t.Errorf("the second step is %+v, the sixth has %s", s, p.Steps[5].Timeout)
	}
}

func TestWrongPagesAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"<!-- not run: why -->\ntext\n":                                        "page.md:1: this comment belongs directly before a block, and another line follows",
		"<!-- exit: 1 -->":                                                     "and nothing follows",
		"<!-- exit: one -->\n" + f + "sh\nx\n" + f + "\n":                      "page.md:1: exit: strconv.Atoi",
		"<!-- not run -->\n" + f + "sh\nx\n" + f + "\n":                        "not run: it says nothing",
		"<!-- slow: 3 -->\n" + f + "sh\nx\n" + f + "\n":                        `slow: got "3", want nothing behind the word`,
		"<!-- replace: a -->\n" + f + "sh\na\n" + f + "\n":                     `got "a", want OLD => NEW`,
		"<!-- replace: b => c -->\n" + f + "sh\na\n" + f + "\n":                `page.md:2: there is no "b" to be replaced`,
		"<!-- not run: why -->\n<!-- exit: 1 -->\n" + f + "sh\na\n" + f + "\n": "the block is not run, and has comments",
		"<!-- not run: why -->\n" + f + "go\na\n" + f + "\n":                   "neither commands",
		f + "bash\na\n" + f + "\n":                                             `the language is "bash"`,
		f + "sh\na\n":                                                          "the block has no end",
		"Do this:\n\n    make\n":                                               "page.md:3: a block is indented by four spaces",
		f + "console\nmake\n" + f + "\n":                                       "has commands behind",
	} {
		if _, err := Parse("page.md", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got error %v, want %q", text, err, want)
		}
	}
	if _, err := Parse("page.md", "- A list\n\n    goes on\n\n<!-- a comment of others: x -->\n"); err != nil {
		t.Error(err)
	}
}

func TestOutputIsCompared(t *testing.T) {
	const came = "rank  loss\n----  -------\nworker 0 | epoch 12  loss 1.83e-05 1,011 images/s ████░░ in 1m3.5s\n" +
		"  job 8f3a done: -0.25, 12.5MB, 3s\nstep=200 accuracy=0.91\n"
	for line, ok := range map[string]bool{
		"worker 1 | epoch 3 loss 0.2 87 images/s ██░ in 2s": true,
		"job ... done: 0.3, 99KB, 55.2ms":                   true,
		"----  ---":                                         true,
		"--  ---":                                           false,
		"job ... ended: 0.3, 99KB, 55.2ms":                  false,
		"done: ...":                                         false,
		"...accuracy=1":                                     true,
		"server 0 | ...":                                    false,
		"...":                                               true,
		"":                                                  true,
		"step=200 accuracy=0.91 x":                          false,
		"step=200 accuracy=high":                            false,
	} {
		if lines := missing([]string{line}, came); (len(lines) == 0) != ok {
			t.Errorf("%q is found: %t, want %t", line, len(lines) == 0, ok)
		}
	}
}

func testConfig(t *testing.T) Config {
	root, programs := t.TempDir(), t.TempDir()
	for file, mode := range map[string]os.FileMode{filepath.Join(root, "README.md"): 0o644, filepath.Join(programs, "hello"): 0o755} {
		if err := os.WriteFile(file, []byte("#!/bin/sh\necho hello from $0 7\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, left := range []string{"ckpt", "runs"} {
		// Runs in the clone leave these folders there.
		if err := os.Mkdir(filepath.Join(root, left), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return Config{Root: root, Programs: programs}
}

func TestPagesAreRun(t *testing.T) {
	page := strings.ReplaceAll(`
§sh
hello; bin/hello
test -f README.md
test ! -e ckpt
test ! -e runs
export COLOUR='dark "red"'
mkdir sub
cd sub
§
§text
hello from ...bin/hello 1
§
<!-- file: x/list -->
§
one
two
§
§console
$ cat x/list
one
two
$ echo $COLOUR, $(basename $PWD)
dark "red", sub
§
<!-- background: 3 lines -->
<!-- exit: 130 -->
§sh
trap 'echo interrupted; exit 130' INT
echo 4 lines are there, colour $COLOUR
sleep 100 & wait
§
§text
interrupted
§
<!-- ctrl-c -->
<!-- background: begun -->
§sh
echo begun
while [ ! -f stop ]; do sleep 0.01; done
§
<!-- run: touch stop -->
<!-- wait -->
<!-- background: again -->
§sh
echo again
sleep 100
§
<!-- exit: 85 -->
§sh
exit 85
§
§console
$ echo $COLOUR
dark "red"
§
`, "§", f)
	p, err := Parse("page.md", page)
	if err != nil {
		t.Fatal(err)
	}
	if err := runPage(t, testConfig(t), p); err != nil {
		t.Error(err)
	}
}

// Pages neither read nor write files of the clone that are not in its repository.
func TestPagesSeeOnlyFilesOfTheRepository(t *testing.T) {
	cfg := testConfig(t)
	if err := os.WriteFile(filepath.Join(cfg.Root, "hosts"), []byte("mine\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "README.md"}} {
		if out, err := exec.Command("git", append([]string{"-C", cfg.Root}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	p, err := Parse("page.md", strings.ReplaceAll("\n§sh\ntest -f README.md\ntest ! -e hosts\necho a1 > hosts\n§\n", "§", f))
	if err != nil {
		t.Fatal(err)
	}
	if err := runPage(t, cfg, p); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(filepath.Join(cfg.Root, "hosts")); err != nil || string(b) != "mine\n" {
		t.Errorf("the file of the clone has %q, %v, want it as it was", b, err)
	}
}

func TestWrongCommandsAreFound(t *testing.T) {
	for text, want := range map[string]string{
		"§sh\nfalse\ntrue\n§\n":                                                             "page.md:1: exit code 1, want 0",
		"<!-- exit: 3 -->\n§sh\ntrue\n§\n":                                                  "page.md:2: exit code 0, want 3",
		"§sh\nkill -9 $$\n§\n":                                                              "exit code 137",
		"§sh\nnonesuch\n§\n":                                                                "exit code 127",
		"§console\n$ echo red\nblue\n§\n":                                                   "the page's output (line 2) has what was not printed:\nblue\n",
		"§sh\necho red\n§\nIt prints\n§text\nblue\n§\n":                                     "the page's output (line 6)",
		"<!-- timeout: 100ms -->\n§sh\nsleep 100\n§\n":                                      "runs for more than 100ms",
		"<!-- background: blue -->\n§sh\necho red\n§\n":                                     `ended before it printed "blue"`,
		"<!-- background: blue -->\n<!-- timeout: 100ms -->\n§sh\necho red; sleep 100\n§\n": `did not print "blue" within 100ms`,
		"<!-- background: red -->\n§sh\necho red; exit 4\n§\n<!-- wait -->\n":               "page.md:5: exit code 4",
		"<!-- background: red -->\n§sh\necho red; sleep 100\n§\n§text\nblue\n§\n":           "page.md:2: the page's output",
		"<!-- ctrl-c -->\n":                                                                 "no block runs",
	} {
		p, err := Parse("page.md", strings.ReplaceAll(text, "§", f))
		if err != nil {
			t.Fatal(err)
		}
		if err := runPage(t, testConfig(t), p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got error %v, want %q", text, err, want)
		}
	}
}

func TestPagesThatLackWhatTheyNeedAreSkipped(t *testing.T) {
	page := strings.ReplaceAll("<!-- needs: true -->\n§sh\ntrue\n§\n<!-- needs: echo no tool; false -->\n§sh\nexit 7\n§\n", "§", f)
	p, err := Parse("page.md", page)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PARAGON_TEST_REQUIRE", "")
	skipped := false
	t.Run("skipped", func(t *testing.T) {
		defer func() { skipped = t.Skipped() }()
		if err := runPage(t, testConfig(t), p); err != nil {
			t.Error(err)
		}
	})
	if !skipped {
		t.Error("the page was not skipped")
	}
	t.Setenv("PARAGON_TEST_REQUIRE", "all")
	if err := runPage(t, testConfig(t), p); err == nil || !strings.Contains(err.Error(), "page.md:5: PARAGON_TEST_REQUIRE=all") || !strings.Contains(err.Error(), "no tool") {
		t.Errorf("got error %v, want one with the line, the variable and the output", err)
	}
}

func TestHostsAreReached(t *testing.T) {
	p, err := Parse("page.md", strings.ReplaceAll("<!-- hosts: a1 a2 -->\n§console\n$ ssh a2 'echo $SSH_CONNECTION' | cut -d ' ' -f 3\n127.0.0.3\n§\n", "§", f))
	if err != nil {
		t.Fatal(err)
	}
	if err := runPage(t, testConfig(t), p); err != nil {
		t.Error(err)
	}
}
