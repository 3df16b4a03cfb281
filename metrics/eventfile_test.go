package metrics

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// versionBytes and scalarBytes are what TensorFlow writes for a first record at 1700000000.5 and
// ray/tune/accuracy = 0.75 at step 7, one second later.
const (
	versionBytes = "1800000000000000a37f4b220900002040fc54d9411a0d627261696e2e4576656e743a322b353110"
	scalarBytes  = "2700000000000000bbe1b1460900006040fc54d94110072a1a0a180a117261792f74756e652f6163637572616379150000403f8643d46b"
)

var goldenTime = time.Unix(1700000000, 5e8)

// goldenEvents are events at goldenTime as TensorBoard's own protobuf classes write them.
var goldenEvents = []struct {
	name  string
	bytes string
	write func(e *EventFile) error
}{
	{"start", "0900002040fc54d94110293a020801", nil},
	{"text", "0900002040fc54d94110282a390a370a0e6a6f622f6d656d6265727368697042190807120412020801420f776f726b657273206368616e6765644a0a0a060a04746578742002",
		func(e *EventFile) error { return e.AddText(40, goldenTime, "job/membership", "workers changed") }},
	{"experiment", "0900002040fc54d9412af4010af1010a145f68706172616d735f2f6578706572696d656e7442060801120212004ad0010acb010a0768706172616d7312bf0112bc011900002040fc54d941221c0a026c722003321209fca9f1d24d62503f119a9999999999b93f380122200a096f7074696d697a657220012a0f0a051a037367640a061a046164616d380122190a086d6f6d656e74756d2003320911ae47e17a14aeef3f380122180a086e65737465726f7620022a080a0220000a022001380122170a0665706f63687320032a0b0a09110000000000000840220b0a056e6f697365200338012a110a0f120d74756e652f61636375726163793203746f792002",
		func(e *EventFile) error {
			return e.AddExperiment(goldenTime, Experiment{Name: "toy", Created: goldenTime, Metrics: []string{"tune/accuracy"}, Params: []HParam{
				{Name: "lr", Kind: HParamNumber, Low: 0.001, High: 0.1},
				{Name: "optimizer", Kind: HParamString, Values: []any{"sgd", "adam"}},
				{Name: "momentum", Kind: HParamNumber, High: 0.99},
				{Name: "nesterov", Kind: HParamBool, Values: []any{false, true}},
				{Name: "epochs", Kind: HParamNumber, Values: []any{3.0}},
				{Name: "noise", Kind: HParamNumber, Low: math.Inf(-1), High: math.Inf(1)},
			}})
		}},
	{"session", "0900002040fc54d9412a91010a8e010a1c5f68706172616d735f2f73657373696f6e5f73746172745f696e666f42060801120212004a660a620a0768706172616d7312571a550a120a096f7074696d697a657212051a037367640a150a086d6f6d656e74756d12091100000000000000000a0e0a086e65737465726f76120220000a0f0a026c72120911000000000000e03f2900002040fc54d9412002",
		func(e *EventFile) error {
			return e.BeginSession(goldenTime, []HParamValue{{"optimizer", "sgd"}, {"momentum", 0.0}, {"nesterov", false}, {"lr", 0.5}})
		}},
	{"end", "0900002040fc54d9412a440a420a1a5f68706172616d735f2f73657373696f6e5f656e645f696e666f42060801120212004a1c0a180a0768706172616d73120d220b08021100002040fc54d9412002",
		func(e *EventFile) error { return e.EndSession(goldenTime, true) }},
}

// unhex is for constants.
func unhex(text string) []byte {
	b, err := hex.DecodeString(text)
	if err != nil {
		panic(err)
	}
	return b
}

// framed is a record as its reader takes it apart.
func framed(event []byte) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(event)))
	b = binary.LittleEndian.AppendUint32(b, maskedCRC(b))
	return binary.LittleEndian.AppendUint32(append(b, event...), maskedCRC(event))
}

func TestEventFileHasTensorFlowsBytes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "logs")
	f, err := NewEventFile(dir, "rank-0", 41, goldenTime)
	if err != nil {
		t.Fatal(err)
	}
	want := append(unhex(versionBytes), framed(unhex(goldenEvents[0].bytes))...)
	for _, g := range goldenEvents[1:] {
		if err := g.write(f); err != nil {
			t.Fatal(err)
		}
		want = append(want, framed(unhex(g.bytes))...)
	}
	if err := f.Add(7, goldenTime.Add(time.Second), Scalar{"ray/tune/accuracy", 0.75}); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	want = append(want, unhex(scalarBytes)...)
	if got, want := filepath.Base(f.Path()), "events.out.tfevents.1700000000.rank-0"; got != want {
		t.Errorf("the file is called %q, want %q", got, want)
	}
	b, err := os.ReadFile(f.Path())
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b, want) {
		t.Errorf("the file holds\n%x, want\n%x", b, want)
	}
	if err := f.Add(8, goldenTime, Scalar{"a", 1}); !errors.Is(err, os.ErrClosed) {
		t.Errorf("after Close: %v, want %v", err, os.ErrClosed)
	}
}

// Names and texts that are not UTF-8, such as those of a path, can be read: protobuf's readers
// refuse others.
func TestStringsAreUTF8(t *testing.T) {
	const bad, good = "a\xffb", "a\uFFFDb"
	f, err := NewEventFile(t.TempDir(), "x", 0, goldenTime)
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(f.Add(1, goldenTime, Scalar{bad, 1}, Scalar{"c", 2}), f.AddText(2, goldenTime, bad, bad), f.AddExperiment(goldenTime, Experiment{Name: bad, Metrics: []string{bad}}),
		f.BeginSession(goldenTime, []HParamValue{{bad, bad}}), f.Close())
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(f.Path())
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(b, []byte(bad)) {
		t.Errorf("the file has %q, want %q for it", bad, good)
	}
	events, err := ReadEvents(bytes.NewReader(b))
	if err != nil || len(events) != 6 || !slices.Equal(events[2].Scalars, []Scalar{{good, 1}, {"c", 2}}) || !slices.Equal(events[3].Texts, []Text{{good, good}}) {
		t.Errorf("read %+v, %v", events, err)
	}
}

// TensorBoard reads the files of a folder in the order of their names: that of a later writer comes
// last, whatever its clock says.
func TestLaterEventFilesComeLast(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"notes.txt", "events.out.tfevents.99999999999.x", "events.out.tfevents.9999999999.x", "events.out.tfevents.x"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var names []string
	for _, w := range []struct {
		suffix string
		at     time.Time
	}{{"9", goldenTime}, {"10", goldenTime}, {"8", goldenTime.Add(-time.Hour)}, {"7", goldenTime.Add(time.Hour)}} {
		f, err := NewEventFile(dir, w.suffix, 0, w.at)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		names = append(names, filepath.Base(f.Path()))
	}
	want := []string{"events.out.tfevents.1700000000.9", "events.out.tfevents.1700000001.10", "events.out.tfevents.1700000002.8", "events.out.tfevents.1700003600.7"}
	if !slices.Equal(names, want) || !slices.IsSorted(names) {
		t.Errorf("got the files %q, want %q", names, want)
	}
}

func TestReadEventsGivesWhatWasAdded(t *testing.T) {
	b := append(unhex(versionBytes), framed(unhex(goldenEvents[0].bytes))...)
	b = append(append(b, framed(unhex(goldenEvents[1].bytes))...), framed(unhex(goldenEvents[4].bytes))...)
	b = append(b, unhex(scalarBytes)...)
	end := unhex(goldenEvents[4].bytes)
	want := []Event{
		{Time: 1700000000.5, Version: "brain.Event:2"},
		{Time: 1700000000.5, Step: 41, Start: true},
		{Time: 1700000000.5, Step: 40, Texts: []Text{{"job/membership", "workers changed"}}},
		{Time: 1700000000.5, Plugins: []PluginData{{"_hparams_/session_end_info", "hparams", end[len(end)-15 : len(end)-2]}}},
		{Time: 1700000001.5, Step: 7, Scalars: []Scalar{{"ray/tune/accuracy", 0.75}}},
	}
	got, err := ReadEvents(bytes.NewReader(b))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	whole := map[int]bool{0: true}
	for n := 0; n < len(b); n += 16 + int(binary.LittleEndian.Uint64(b[n:])) {
		whole[n] = true
	}
	for n := range b {
		got, err := ReadEvents(bytes.NewReader(b[:n]))
		switch {
		case whole[n]:
			if err != nil {
				t.Errorf("cut off after %d bytes, between records: %v", n, err)
			}
		case !errors.Is(err, io.ErrUnexpectedEOF):
			t.Errorf("cut off after %d bytes: %d records, %v, want %v", n, len(got), err, io.ErrUnexpectedEOF)
		}
		broken := bytes.Clone(b)
		broken[n] ^= 1
		if _, err := ReadEvents(bytes.NewReader(broken)); err == nil {
			t.Errorf("byte %d is another: no error", n)
		}
	}
}

// What was added reaches the disk within two seconds, also if nothing follows, and at once if it is
// much.
func TestEventFileFlushesSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		f, err := NewEventFile(dir, "x", 0, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		records := func() int {
			t.Helper()
			b, err := os.ReadFile(f.Path())
			if err != nil {
				t.Fatal(err)
			}
			events, err := ReadEvents(bytes.NewReader(b))
			if err != nil {
				t.Error(err)
			}
			return len(events)
		}
		add := func() {
			t.Helper()
			if err := f.Add(1, time.Now(), Scalar{"train/loss", 1}); err != nil {
				t.Fatal(err)
			}
		}
		want := 2 // version and start
		for range 2 {
			add()
			time.Sleep(flushAfter - 1)
			if got := records(); got != want {
				t.Errorf("just before the flush: %d records, want %d", got, want)
			}
			add()
			time.Sleep(2 * time.Nanosecond)
			synctest.Wait()
			if want += 2; records() != want {
				t.Errorf("after %v: %d records, want %d", flushAfter, records(), want)
			}
		}
		for range 1000 {
			add()
		}
		if got := records(); got < want+500 {
			t.Errorf("after 1000 records more: %d, want at least %d", got, want+500)
		}
	})
}

// Of a step nothing is allocated once the buffer is there.
func TestAddingScalarsAllocatesNothing(t *testing.T) {
	f, err := NewEventFile(t.TempDir(), "x", 0, goldenTime)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	scalars := make([]Scalar, 13)
	for i := range scalars {
		scalars[i] = Scalar{"train/number", float64(i)}
	}
	step := int64(0)
	if n := testing.AllocsPerRun(1000, func() {
		step++
		_ = f.Add(step, goldenTime, scalars...)
	}); n != 0 {
		t.Errorf("a step allocates %v times, want 0", n)
	}
}

func BenchmarkEventFile(b *testing.B) {
	f, err := NewEventFile(b.TempDir(), "x", 0, goldenTime)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	scalars := make([]Scalar, 13)
	for i := range scalars {
		scalars[i] = Scalar{"train/number", float64(i)}
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := f.Add(1, goldenTime, scalars...); err != nil {
			b.Fatal(err)
		}
	}
}

type fullDisk struct{ left int }

func (d *fullDisk) Write(p []byte) (int, error) {
	n := min(len(p), d.left)
	d.left -= n
	if n < len(p) {
		return n, errors.New("no space left on device")
	}
	return n, nil
}

func (d *fullDisk) Close() error { return nil }

// A record that was written in part must not be followed by another.
func TestEventFileStaysBrokenAfterPartOfARecord(t *testing.T) {
	f, err := NewEventFile(t.TempDir(), "x", 0, goldenTime)
	if err != nil {
		t.Fatal(err)
	}
	f.out.Close()
	f.out = &fullDisk{left: 10}
	_ = f.Add(1, time.Unix(1, 0), Scalar{"a", 1})
	if err = f.Flush(); err == nil {
		t.Fatal("no error on a full disk")
	}
	f.out = &fullDisk{left: 1000}
	if again := f.Add(2, time.Unix(2, 0), Scalar{"a", 2}); again == nil {
		t.Errorf("after %v a record more was taken", err)
	}
	if err := f.Close(); err == nil || f.out != nil {
		t.Errorf("Close: %v, want the error of the write", err)
	}
}

func FuzzReadEvents(f *testing.F) {
	f.Add(append(unhex(versionBytes), unhex(scalarBytes)...))
	for _, g := range goldenEvents {
		f.Add(framed(unhex(g.bytes)))
		f.Add(unhex(g.bytes))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		// Checksums would keep the fuzzer out: it goes for the message, too.
		if _, err := parseEvent(b); err == nil && len(b) > 0 {
			_, _ = ReadEvents(bytes.NewReader(b))
		}
	})
}
