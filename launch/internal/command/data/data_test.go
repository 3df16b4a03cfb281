package data

import (
	"bytes"
	"image/png"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/paragon-train/paragon/internal/testing/photos"
)

// launchData runs `launch data` in this process and returns the code and what was printed.
func launchData(args ...string) (code int, stdout, stderr string) {
	var o, e bytes.Buffer
	code = Run(args, &o, &e)
	return code, o.String(), e.String()
}

// photoFolder makes 24 images of 3 classes.
func photoFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := photos.Make(dir, photos.Config{Images: 24, Classes: 3, Seed: 1, Largest: 64}); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestDataIsPackedAndChecked(t *testing.T) {
	folder, out := photoFolder(t), t.TempDir()
	rec, tar := filepath.Join(out, "train.rec"), filepath.Join(out, "train.tar")
	for _, args := range [][]string{
		{"pack", folder, rec},
		{"pack", "--resize=32", "--center-crop", folder, tar, "--chunks", "2"},
	} {
		code, stdout, stderr := launchData(args...)
		if code != 0 || stderr != "" {
			t.Fatalf("launch data %q: exit code %d, %s", args, code, stderr)
		}
		if !regexp.MustCompile(`train(\.rec|-000000\.tar)  (24|12) images, \d+ bytes\n`).MatchString(stdout) {
			t.Errorf("launch data %q prints\n%s", args, stdout)
		}
	}
	for source, want := range map[string]string{
		folder: `  images    24, \d+\.\d KB, 0 damaged
  formats   jpeg 24
  sizes     \d+×\d+ to \d+×\d+, mean \S+ pixels and \d+\.\d KB
  classes   3, the fewest images 8 in class000, the most 8 in class000
`,
		rec: `  images    24, .* 0 damaged
  formats   jpeg 24
  sizes     .*
  classes   3, the fewest images 8 in class000, the most 8 in class000
`,
		filepath.Join(out, "train-{000000..000001}.tar"): `  images    24, .* 0 damaged
  formats   jpeg 24
  sizes     32×32 to 32×32, mean 1,024 pixels and .*
  classes   3, the fewest images 8 in class000, the most 8 in class000
`,
	} {
		code, stdout, stderr := launchData("check", source)
		if code != 0 || !regexp.MustCompile("^"+regexp.QuoteMeta(source)+"\n"+want+"$").MatchString(stdout) {
			t.Errorf("launch data check %s: exit code %d, %s\n%swant\n%s", source, code, stderr, stdout, want)
		}
	}
}

func TestDataCheckNamesDamage(t *testing.T) {
	folder, out := photoFolder(t), t.TempDir()
	rec := filepath.Join(out, "train.rec")
	if code, _, stderr := launchData("pack", folder, rec); code != 0 {
		t.Fatal(stderr)
	}
	content, err := os.ReadFile(rec)
	if err != nil {
		t.Fatal(err)
	}
	idx, err := os.ReadFile(filepath.Join(out, "train.idx"))
	if err != nil {
		t.Fatal(err)
	}
	_, at, _ := strings.Cut(strings.Split(string(idx), "\n")[5], "\t")
	write := func(name string, b []byte) {
		if err := os.WriteFile(filepath.Join(out, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	truncated := filepath.Join(folder, "class001", "0000004.jpg")
	whole, err := os.ReadFile(truncated)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(truncated, whole[:len(whole)/2], 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what, source string
		damage       func()
		code         int
		want         string
	}{
		{"a truncated JPEG", folder, func() {}, 1, `damaged: example 9 (class001/0000004.jpg): `},
		{"a cut .rec file", rec, func() { write("train.rec", content[:len(content)-100]) }, 1, "damaged: example 23 (train.rec, record 23 at byte "},
		{"a damaged record", rec, func() {
			b := bytes.Clone(content)
			b[5+bytes.Index(b[:1000], []byte{0x0a, 0x23, 0xd7, 0xce})] ^= 0xff
			write("train.rec", b)
		}, 1, "damaged: example 0 (train.rec, record 0 at byte 0): "},
		{"an index of another file", rec, func() { write("train.rec", content); write("train.idx", []byte("0\t4\n1\t8\n")) }, 1, "damaged: data: RecordIO in "},
		{"a part of the index", rec, func() { write("train.idx", []byte("0\t0\n5\t"+at+"\n")) }, 0, "  index     2 examples: a trainer reads these alone\n"},
	} {
		c.damage()
		code, stdout, stderr := launchData("check", c.source)
		if code != c.code || !strings.Contains(stdout, c.want) {
			t.Errorf("%s: exit code %d, want %d and %s\n%s%s", c.what, code, c.code, c.want, stdout, stderr)
		}
	}
}

func TestShardsMayNumberTheirSamplesAnew(t *testing.T) {
	folder, out := photoFolder(t), t.TempDir()
	for _, name := range []string{"a.tar", "b.tar"} {
		if code, _, stderr := launchData("pack", folder, filepath.Join(out, name)); code != 0 {
			t.Fatal(stderr)
		}
	}
	if code, _, stderr := launchData("check", out); code == 0 || !strings.Contains(stderr, "SameKeys") {
		t.Errorf("launch data check: exit code %d, %s", code, stderr)
	}
	if code, stdout, stderr := launchData("check", "--same-keys", out); code != 0 || !strings.Contains(stdout, "images    48") {
		t.Errorf("launch data check --same-keys: exit code %d, %s\n%s", code, stderr, stdout)
	}
}

// A pixel of an MDS shard that is not compressed has no checksum but the whole file's.
func TestDataCheckComparesHashes(t *testing.T) {
	folder := t.TempDir()
	if err := os.CopyFS(folder, os.DirFS("../../../../data/internal/source/mds/testdata/pil")); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := launchData("check", folder)
	if code != 0 || !strings.Contains(stdout, "  hashes    1 file as the index says\n") {
		t.Errorf("launch data check: exit code %d, %s\n%s", code, stderr, stdout)
	}
	shard := filepath.Join(folder, "shard.00000.mds")
	b, err := os.ReadFile(shard)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)-10] ^= 1
	if err := os.WriteFile(shard, b, 0o666); err != nil {
		t.Fatal(err)
	}
	code, stdout, _ = launchData("check", folder)
	if code != 1 || !strings.Contains(stdout, "damaged: shard.00000.mds: its sha1 is ") {
		t.Errorf("launch data check of a damaged shard: exit code %d\n%s", code, stdout)
	}
}

func TestDataPackNamesWhatItLeavesOut(t *testing.T) {
	folder, out := photoFolder(t), t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "class002", "0000005.jpg"), []byte("no image"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, allowed := range []string{"0", "1"} {
		code, _, stderr := launchData("pack", "--overwrite", "--bad-examples", allowed, folder, filepath.Join(out, "a.rec"))
		if want := map[string]int{"0": 1, "1": 0}[allowed]; code != want {
			t.Errorf("--bad-examples %s: exit code %d, want %d", allowed, code, want)
		}
		for _, want := range []string{"launch: data pack: left out example 17 (class002/0000005.jpg): ", "launch: data pack: 1 of 24 images cannot be read and were left out\n"} {
			if !strings.Contains(stderr, want) {
				t.Errorf("--bad-examples %s: no %q in\n%s", allowed, want, stderr)
			}
		}
		if got := strings.Contains(stderr, "--bad-examples allows 0: mend or remove the images that are named above, or give --bad-examples 1\n"); got != (allowed == "0") {
			t.Errorf("--bad-examples %s:\n%s", allowed, stderr)
		}
	}
}

func TestDataPackKeepsTheLabelsOfTheTrainingSet(t *testing.T) {
	train, val, out := photoFolder(t), photoFolder(t), t.TempDir()
	if err := os.RemoveAll(filepath.Join(val, "class001")); err != nil {
		t.Fatal(err)
	}
	classes := filepath.Join(out, "classes.txt")
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"pack", train, filepath.Join(out, "train.rec")}, 0, ""},
		{[]string{"pack", val, filepath.Join(out, "val.rec")}, 1, "launch: data pack: " + classes + " names other classes than these 2, "},
		{[]string{"pack", "--classes", classes, val, filepath.Join(out, "val.rec")}, 1, "launch: data pack: data: image folder " + val + ": it has no directory for 1 of the 3 classes "},
		{[]string{"pack", "--classes", classes, "--allow-empty", val, filepath.Join(out, "val.rec")}, 0, ""},
		{[]string{"pack", "--classes", out + "/none", val, filepath.Join(out, "x.rec")}, 1, "launch: data pack: --classes: data: classes: "},
	} {
		if code, _, stderr := launchData(c.args...); code != c.code || !strings.HasPrefix(stderr, c.want) {
			t.Errorf("launch data %q: exit code %d, %s\nwant %d, %s", c.args, code, stderr, c.code, c.want)
		}
	}
	code, stdout, stderr := launchData("check", "--table", filepath.Join(out, "val.rec"))
	if want := "       1  class001          0            -\n       2  class002          8 "; code != 0 || !strings.Contains(stdout, want) {
		t.Errorf("exit code %d, no %q in\n%s%s", code, want, stdout, stderr)
	}
}

func TestDataShowDrawsASheetAndATable(t *testing.T) {
	folder, out := photoFolder(t), filepath.Join(t.TempDir(), "sheet.png")
	code, stdout, stderr := launchData("show", folder, "--output", out, "--count", "6", "--columns", "3", "--size", "50", "--repeat", "2", "--transforms", "random-resized-crop:32,flip")
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	for _, want := range []string{out + " shows 6 of 24 images\n", "   label  class        images    mean size\n       0  class000          8 ", "       2  class002          8 "} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
	f, err := os.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, err := png.Decode(f)
	if err != nil || m.Bounds().Dx() != 2*8+3*56-6 || m.Bounds().Dy() != 2*8+4*84-6 {
		t.Errorf("the sheet is of %v, error %v", m.Bounds(), err)
	}
}

func TestDataSaysWhatIsWrongWithACommandLine(t *testing.T) {
	folder := t.TempDir()
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"pack", "x"}, 2, `launch: data pack: got ["x"], want a source and a file to write: launch data pack photos/train train.rec`},
		{[]string{"pack", "x", "y"}, 2, `launch: data pack: got output "y", want a name that ends in .rec or .tar, such as train.rec`},
		{[]string{"pack", "x", "y.rec", "--resize", "5", "--pass-through"}, 2, "launch: data pack: --pass-through packs files as they are, and --resize makes other ones: give one of them"},
		{[]string{"pack", "x", "y.rec", "--color", "2"}, 2, "launch: data pack: --color: got 2, want 1 for colour or 0 for grey"},
		{[]string{"pack", "x", "y.tar", "--shard-size", "big"}, 2, `launch: data pack: --shard-size: got "big", want a number of bytes such as 128MB`},
		{[]string{"pack", "--quality", "101", "x", "y.rec"}, 2, "launch: data pack: --quality: got 101, want 1 to 100 for JPEG"},
		{[]string{"pack", folder, "y.rec"}, 1, "launch: data pack: data: "},
		{[]string{"check"}, 2, "launch: data check: got no source; give a folder, a file or a URL: launch data check photos/train"},
		{[]string{"check", "--format", "zip", folder}, 2, `launch: data check: --format: got "zip", want one of folder, `},
		{[]string{"check", filepath.Join(folder, "none")}, 1, "launch: data check: data: open: "},
		{[]string{"check", "--decode", folder}, 2, "launch data check: "},
		{[]string{"show"}, 2, "launch: data show: got [], want one source: launch data show photos/train"},
		{[]string{"show", "--no-table", "x"}, 2, "launch: data show: --no-table without --output shows nothing; give --output sheet.png"},
		{[]string{"show", "--output", "x.jpg", "x"}, 2, "launch: data show: --output: got x.jpg, want a name that ends in .png"},
		{[]string{"show", "--transforms", "shrink", "x"}, 2, `launch: data show: --transforms: got the transform "shrink", want some of resize:SIZE, `},
		{[]string{"pck"}, 2, `launch: data: there is no "pck"; there are pack, check and show`},
	} {
		if code, _, stderr := launchData(c.args...); code != c.code || !strings.HasPrefix(stderr, c.want) {
			t.Errorf("launch data %q: exit code %d, %s\nwant %d, %s", c.args, code, stderr, c.code, c.want)
		}
	}
}

func TestFlagsMayStandBehindArguments(t *testing.T) {
	flags := []cli.Flag{&cli.IntFlag{Name: "count", Aliases: []string{"n"}}, &cli.BoolFlag{Name: "deep"}}
	for _, c := range []struct{ args, want []string }{
		{[]string{"a", "--count", "3", "b", "--deep"}, []string{"--count", "3", "--deep", "a", "b"}},
		{[]string{"a", "-n", "3", "--count=4"}, []string{"-n", "3", "--count=4", "a"}},
		{[]string{"a", "--deep", "b", "--", "--count"}, []string{"--deep", "--", "a", "b", "--count"}},
		{[]string{"a", "-", "--count"}, []string{"--count", "a", "-"}},
	} {
		if got := flagsFirst(flags, c.args); !slices.Equal(got, c.want) {
			t.Errorf("%q become %q, want %q", c.args, got, c.want)
		}
	}
}

func TestAmountsOfBytesAreRead(t *testing.T) {
	for text, want := range map[string]int64{"7": 7, "7B": 7, "64KB": 64_000, "128 MB": 128_000_000, "2GB": 2_000_000_000, "1KiB": 1024, "3MiB": 3 << 20, "0": 0, "-1": 0, "x": 0, "9999999999GB": 0} {
		if got, err := parseBytes(text); got != want || (err == nil) != (want > 0) {
			t.Errorf("%q is read as %d, error %v; want %d", text, got, err, want)
		}
	}
}
