package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "results.txt")
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// Ratios of two machines stand in one row, beside what one of them did not measure and why.
func TestMachinesStandSideBySide(t *testing.T) {
	amd := write(t, "goos: linux\nmachine: AMD EPYC, 2 cores\nBenchmarkRatio/model=mlp/batch=64/threads=2/dtype=bf16 \t4\t1.01 x\t0.90 x-min\t1.00 x-median\t1.17 x-max\t66390 ours-images/s\t65953 peer-images/s\n")
	store := write(t, "machine: AMD EPYC, 2 cores\nBenchmarkKV/work=latency 1 2 ns/op\nBenchmarkRatio/work=array/bytes=65536/workers=2/servers=2/transport=tcp/peer=gloo 3 1.28 x 1.20 x-min 1.35 x-max 1.31 cpu-x 44100000 ours-ns/op 56448000 peer-ns/op\n")
	intel := write(t, "machine: Intel Xeon, amx_bf16\n# BenchmarkRatio/work=array/bytes=65536/workers=2/servers=2/transport=tcp/peer=gloo: took longer than 30s\nBenchmarkRatio/model=mlp/batch=64/threads=2/dtype=bf16 4 0.69 x 0.6 x-min 0.7 x-max\n")
	var out bytes.Buffer
	if err := run([]string{amd, store, intel}, &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"- A: AMD EPYC, 2 cores\n- B: Intel Xeon, amx_bf16\n",
		"| mlp, 64 batch, 2 threads, bf16 | **1.01** (0.90 to 1.17); 66390 and 65953 a second | **0.69** (0.60 to 0.70) |\n",
		"| array, 65536 bytes, 2 workers, 2 servers, over tcp, against gloo | **1.28** (1.20 to 1.35); 44.1 ms and 56.4 ms | took longer than 30s |\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("got no %q in\n%s", want, &out)
		}
	}
}

// Two versions of a peer on one machine are two columns, whatever the number of files; without a
// note a file is of the machine's first.
func TestVersionsOfAPeerStandSideBySide(t *testing.T) {
	of := func(note, row, ratio string) string {
		return write(t, "machine: m\n"+note+"BenchmarkRatio/model="+row+" 4 "+ratio+" x 1 x-min 9 x-max 0.03 others\n")
	}
	var out bytes.Buffer
	if err := run([]string{of("note: PyTorch 1\n", "mlp", "2"), of("note: PyTorch 2\n", "mlp", "3"), of("note: PyTorch 1\n", "lenet", "4"), of("note: PyTorch 2\n", "lenet", "5"),
		of("", "kv", "6")}, &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"- A: m; PyTorch 1\n- B: m; PyTorch 2\n",
		"| mlp | **2.00** (1.00 to 9.00) | **3.00** (1.00 to 9.00) |\n",
		"| lenet | **4.00** (1.00 to 9.00) | **5.00** (1.00 to 9.00) |\n",
		"| kv | **6.00** (1.00 to 9.00) |  |\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("got no %q in\n%s", want, &out)
		}
	}
}

// A saved ratio during which other processes were at work is not shown as one.
func TestADisturbedRowHasNoRatio(t *testing.T) {
	var out bytes.Buffer
	file := write(t, "machine: m\nBenchmarkRatio/model=lenet 4 39.94 x 1 x-min 99 x-max 0.37 others\nBenchmarkRatio/model=mlp 4 2 x 1 x-min 9 x-max 0.1 others\n")
	if err := run([]string{file}, &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| lenet | disturbed: other processes took 0.37 of the cores, want at most 0.10 |\n", "| mlp | **2.00** (1.00 to 9.00) |\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("got no %q in\n%s", want, &out)
		}
	}
}

func TestRefusesWhatSaysNoMachine(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"goos: linux\n", `no line "machine`},
		{"BenchmarkRatio/a 1 2 x\n", "goes ahead"},
		{"machine: m\nBenchmarkRatio/a 1 y x\n", "invalid syntax"},
		{"machine: m\nBenchmarkRatio/a 1 2 y\n", "want a number of x"},
	} {
		if err := run([]string{write(t, test.text)}, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: got error %v, want one with %q", test.text, err, test.want)
		}
	}
	if err := run(nil, &bytes.Buffer{}); err == nil {
		t.Error("no files: got no error")
	}
}

// A page's tables are written anew, and the text around them stays.
func TestAPageHasItsTables(t *testing.T) {
	file := write(t, "machine: m\nBenchmarkRatio/model=mlp 4 2 x 1 x-min 9 x-max\nBenchmarkRatio/work=push/peer=gloo 4 3 x 1 x-min 9 x-max\n"+
		"machine: n\nBenchmarkRatio/work=push/peer=gloo 4 5 x 1 x-min 9 x-max\n")
	page := write(t, "# Page\n<!-- machines -->\nold\n<!-- end -->\ntext\n<!-- machines: ^model= -->\n<!-- end -->\n<!-- machines: peer=gloo$ -->\nold\n<!-- end -->\nlast\n")
	want := "# Page\n<!-- machines -->\n\n- A: m\n- B: n\n\n<!-- end -->\ntext\n" +
		"<!-- machines: ^model= -->\n\n| work | A |\n| --- | --- |\n| mlp | **2.00** (1.00 to 9.00) |\n\n<!-- end -->\n" +
		"<!-- machines: peer=gloo$ -->\n\n| work | A | B |\n| --- | --- | --- |\n| push, against gloo | **3.00** (1.00 to 9.00) | **5.00** (1.00 to 9.00) |\n\n<!-- end -->\nlast\n"

	// The second time nothing changes.
	for range 2 {
		if err := update(page, []string{file}); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(page); err != nil || string(got) != want {
			t.Errorf("got %v\n%s\nwant\n%s", err, got, want)
		}
	}
	for _, tc := range []struct{ page, want string }{
		{"text\n", "0 tables begin"},
		{"<!-- machines -->\n", "ends: false"},
		{"<!-- machines -->\n<!-- machines -->\n<!-- end -->\n", "ends the table before it"},
		{"<!-- machines: ( -->\n<!-- end -->\n", "missing closing"},
		{"<!-- machines: peer=none -->\n<!-- end -->\n", "no row matches"},
	} {
		page := write(t, tc.page)
		if err := update(page, []string{file}); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q: got error %v, want one with %q", tc.page, err, tc.want)
		}
		if got, _ := os.ReadFile(page); string(got) != tc.page {
			t.Errorf("%q: after the error the page is %q", tc.page, got)
		}
	}
}

// The page of measurements in this tree has what the raw results say.
func TestThePageOfMeasurementsIsOfTheseResults(t *testing.T) {
	root := filepath.Join("..", "..", "docs")
	files, err := filepath.Glob(filepath.Join(root, "design", "measured", "*.txt"))
	if err != nil {
		t.Fatal(err)
	}
	had, err := os.ReadFile(filepath.Join(root, "performance.md"))
	if err != nil {
		t.Fatal(err)
	}
	table, err := readAll(files)
	if err != nil {
		t.Fatal(err)
	}
	if want, err := table.insert(string(had)); err != nil || string(had) != want {
		t.Errorf("docs/performance.md is not of docs/design/measured (%v): run make performance", err)
	}
}
