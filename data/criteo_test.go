package data

import (
	"math"
	"path/filepath"
	"strings"
	"testing"
)

func criteoLine(label, ints, categories string) string {
	return label + "\t" + ints + strings.Repeat("\t", CriteoDense-1-strings.Count(ints, "\t")) + "\t" +
		categories + strings.Repeat("\t", CriteoCategorical-1-strings.Count(categories, "\t")) + "\n"
}

func TestCriteoRowsBecomeLogsAndBuckets(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rows.txt")
	writeFile(t, path, []byte(criteoLine("1", "0\t-2\t\t7", "68fd1e64\t68fd1e64")+criteoLine("0", "", "")))
	set, err := LoadCriteo(path, CriteoConfig{Buckets: 1000})
	if err != nil {
		t.Fatal(err)
	}
	dense, ids := make([]float32, CriteoDense), make([]int64, CriteoCategorical)
	label, err := set.Read(0, dense, ids)
	if err != nil || label != 1 || set.Len() != 2 {
		t.Fatalf("got label %v of %d rows (%v), want 1 of 2", label, set.Len(), err)
	}
	for i, want := range []float64{0, -math.Log(3), 0, math.Log(8), 0} {
		if math.Abs(float64(dense[i])-want) > 1e-6 {
			t.Errorf("dense %d: got %v, want %v", i, dense[i], want)
		}
	}
	if ids[0] == ids[1] {
		t.Errorf("the same value in columns 14 and 15: got bucket %d for both, want two", ids[0])
	}
	if _, err := set.Read(2, dense, ids); err == nil {
		t.Error("row 2 of 2: got no error")
	}
	if _, err := set.Read(0, dense[:3], ids); err == nil {
		t.Error("room for 3 dense values: got no error")
	}
	if one, err := LoadCriteo(path, CriteoConfig{MaxRows: 1}); err != nil || one.Len() != 1 {
		t.Errorf("MaxRows 1: got %v rows, %v", one.Len(), err)
	}
}

func TestDamagedCriteoIsAnErrorWithLineAndByte(t *testing.T) {
	good := criteoLine("1", "1", "a")
	for _, c := range []struct{ text, want string }{
		{"", "has no rows"},
		{good + "0\t1\n", "line 2, byte 43: got 2 columns, want 40"},
		{good + good[:20], "may be cut short"},
		{criteoLine("2", "", ""), `line 1, byte 0: column 1: got label "2", want 0 or 1`},
		{criteoLine("1", "1\tx", ""), `column 3: got "x", want an integer`},
		{strings.Repeat("x", 1<<17), "line 1, byte 0: longer than"},
	} {
		path := filepath.Join(t.TempDir(), "rows.txt")
		writeFile(t, path, []byte(c.text))
		if _, err := LoadCriteo(path, CriteoConfig{}); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%.30q: got error %v, want one with %q", c.text, err, c.want)
		}
	}
}

func FuzzCriteo(f *testing.F) {
	f.Add([]byte(criteoLine("1", "0\t-2\t\t7", "68fd1e64\tff") + criteoLine("0", "", "")))
	f.Fuzz(func(t *testing.T, b []byte) {
		set, err := readCriteo(&source{name: "f", r: strings.NewReader(string(b))}, CriteoConfig{Buckets: 10})
		if err != nil {
			return
		}
		if lines := strings.Count(strings.TrimRight(string(b), "\n"), "\n") + 1; set.Len() > lines {
			t.Errorf("got %d rows of %d lines", set.Len(), lines)
		}
	})
}
