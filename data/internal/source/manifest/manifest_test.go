package manifest

import (
	"fmt"
	"testing"

	"github.com/paragon-train/paragon/internal/files/objects"
)

func TestEntriesComeBackAsTheyWere(t *testing.T) {
	versions := []string{
		"", "0", "7", "1764423127123456789", "18446744073709551615-5", "18446744073709551616-5", "007-3", "-5", "-", "3-", "--1", "file",
		`"d41d8cd98f00b204e9800998ecf8427e"`, `"D41D8CD98F00B204E9800998ECF8427E"`, `"d41d8cd98f00b204e9800998ecf8427e-12"`,
		"1764423127123456789-110000", `W/"x"`, "d41d8cd98f00b204e9800998ecf8427e",
	}
	var m Manifest
	var want []objects.Info
	for i := range 200 {
		o := objects.Info{Name: fmt.Sprintf("n%04d/ä%d.jpg", i%7, i*i), Size: int64(i) << (i % 50), Version: versions[i%len(versions)]}
		if o.Version == "file" {
			o.Version = fmt.Sprintf("%d-%d", 1764423127123456789+i, o.Size)
		}
		switch i % 11 {
		case 3:
			o.Size = -1
		case 5:
			o.Name = ""
		}
		m.Append(o)
		want = append(want, o)
	}
	m.Trim()
	if m.Len() != len(want) {
		t.Fatalf("%d entries, want %d", m.Len(), len(want))
	}
	for i, w := range want {
		if got := m.At(i); got != w {
			t.Errorf("entry %d is %+v, want %+v", i, got, w)
		}
		if got := string(m.Name(i)); got != w.Name {
			t.Errorf("entry %d has the name %q, want %q", i, got, w.Name)
		}
		if got := m.Size(i); got != w.Size {
			t.Errorf("entry %d has size %d, want %d", i, got, w.Size)
		}
	}
}

func TestAnEntryOfImageNetTakesFortyBytes(t *testing.T) {
	for _, version := range []string{"1764423127123456789-110000", `"d41d8cd98f00b204e9800998ecf8427e"`} {
		var m Manifest
		const n = 10_000
		for i := range n {
			m.Append(objects.Info{Name: fmt.Sprintf("n01440764_%d.JPEG", i), Size: 110_000, Version: version})
		}
		m.Trim()
		if got := float64(m.Bytes()) / n; got > 41 {
			t.Errorf("with versions like %s an entry takes %.1f bytes, want at most 41", version, got)
		}
	}
}

func FuzzEntry(f *testing.F) {
	f.Add("a/b.jpg", int64(5), "12")
	f.Add("", int64(-1), `"00000000000000000000000000000000"`)
	f.Fuzz(func(t *testing.T, name string, size int64, version string) {
		want := objects.Info{Name: name, Size: max(size, -1), Version: version}
		var m Manifest
		m.Append(objects.Info{Name: "before", Size: 1})
		m.Append(objects.Info{Name: name, Size: size, Version: version})
		m.Append(objects.Info{Name: "after", Size: 2})
		if got := m.At(1); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		if got := m.At(2).Name; got != "after" {
			t.Errorf("the next entry is %q, want after", got)
		}
	})
}
