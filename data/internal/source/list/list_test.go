package list

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/data/internal/source"
	"github.com/paragon-train/paragon/data/internal/source/sourcetest"
	"github.com/paragon-train/paragon/internal/files/objects"
	"github.com/paragon-train/paragon/internal/files/objects/objectstest"
)

// noLists is a store that has no lists, as web servers have none.
type noLists struct{ objects.Store }

func (noLists) List(context.Context, string) iter.Seq2[objects.Info, error] {
	return func(yield func(objects.Info, error) bool) { yield(objects.Info{}, errors.ErrUnsupported) }
}

func TestListDoesWhatASourceMust(t *testing.T) {
	sourcetest.Run(t, sourcetest.Format{
		Files: func(examples []source.Example) map[string][]byte {
			files := map[string][]byte{}
			var lst bytes.Buffer
			for i, e := range examples {
				files["images/"+e.Name] = e.Image
				fmt.Fprintf(&lst, "%d\t%f\t%s\n", 7*i, e.Labels[0], e.Name)
			}
			files["train.lst"] = lst.Bytes()
			return files
		},
		Open: func(ctx context.Context, store objects.Store) (source.Source, error) {
			return Open(ctx, store, Config{File: "train.lst", Root: "images"})
		},
		Damage:          func(files map[string][]byte, i int) { delete(files, "images/"+sourcetest.Examples(23, 300)[i].Name) },
		BytesPerExample: 60,
		Sized:           true,
	})
}

// store has a list, and an image of each of the names, which has its name for a content.
func store(lst string, names ...string) *objectstest.Memory {
	files := map[string][]byte{"a.lst": []byte(lst)}
	for _, name := range names {
		files[name] = []byte(name)
	}
	return objectstest.New(files)
}

func TestLinesHaveLabelsAndPaths(t *testing.T) {
	s, err := Open(t.Context(), store("5\t1.000000\tx/1.jpg\r\n\n3\t2\t0.5\t-1e3\ty 2.jpg\n-1\t7\t./z/../x/1.jpg", "x/1.jpg", "y 2.jpg"), Config{File: "a.lst"})
	if err != nil {
		t.Fatal(err)
	}
	want := []source.Example{
		{Name: "x/1.jpg", Labels: []float32{1}},
		{Name: "y 2.jpg", Labels: []float32{2, 0.5, -1000}},
		{Name: "x/1.jpg", Labels: []float32{7}},
	}
	if s.Len() != len(want) {
		t.Fatalf("%d examples, want %d", s.Len(), len(want))
	}
	for i, w := range want {
		e, err := s.Read(t.Context(), i, nil)
		if err != nil || e.Name != w.Name || string(e.Image) != w.Name || !slices.Equal(e.Labels, w.Labels) {
			t.Errorf("example %d is %+v, error %v; want %+v", i, e, err, w)
		}
	}
}

func TestMalformedLinesAreNamed(t *testing.T) {
	for _, c := range []struct{ lst, want string }{
		{"0\t1\ta.jpg\n1 1 b.jpg\n", `line 2: got "1 1 b.jpg", want an id, a label or several, and the path of an image, with tabs between them`},
		{"0\t1\ta.jpg\n\n1\tb.jpg\n", `line 3: got "1\tb.jpg", want an id, a label or several, and the path of an image, with tabs between them`},
		{"x\t1\ta.jpg\n", `line 1: got the id "x", want a whole number`},
		{"0\tcat\ta.jpg\n", `line 1: got the label "cat", want a number`},
		{"0\t1\tnan\ta.jpg\n", `line 1: got the label "nan", want a number`},
		{"0\t1e99\ta.jpg\n", `line 1: got the label "1e99", want a number`},
		{"0\t1\t\n", `line 1: got the path "", want one below the folder of the images`},
		{"0\t1\t/etc/passwd\n", `line 1: got the path "/etc/passwd", want one below the folder of the images`},
		{"0\t1\tx/../../a.jpg\n", `line 1: got the path "x/../../a.jpg", want one below the folder of the images`},
		{"0\t1\t" + strings.Repeat("x", 1<<21), "line 1 has more than 1048576 bytes, want an id, labels and a path, with tabs between them"},
		{"\n", "it has no line; want lines of an id, a label and the path of an image, with tabs between them"},
	} {
		_, err := Open(t.Context(), store(c.lst, "a.jpg"), Config{File: "a.lst"})
		if want := "data: image list a.lst in memory://test: " + c.want; err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

func TestMissingImagesAreNotedAndDamaged(t *testing.T) {
	for _, lines := range []int{5, 1500} {
		var lst strings.Builder
		var names []string
		for i := range lines {
			name := fmt.Sprintf("x/%d.jpg", i)
			fmt.Fprintf(&lst, "%d\t1\t%s\n", i, name)
			if i == 0 || i > 4 {
				names = append(names, name)
			}
		}
		memory := store(lst.String(), names...)
		s, err := Open(t.Context(), memory, Config{File: "a.lst"})
		if err != nil {
			t.Fatal(err)
		}
		want := []string{fmt.Sprintf("4 of the %d images that a.lst names are not in memory://test: x/1.jpg, x/2.jpg, x/3.jpg, ...", lines)}
		if !slices.Equal(s.Notes(), want) {
			t.Errorf("the notes are %q, want %q", s.Notes(), want)
		}
		if _, err := s.Read(t.Context(), 0, nil); err != nil {
			t.Error(err)
		}
		var bad *source.BadError
		if _, err := s.Read(t.Context(), 2, nil); !errors.As(err, &bad) || !errors.Is(err, fs.ErrNotExist) || bad.Example != 2 || bad.Name != "x/2.jpg" {
			t.Errorf("reading an image that is not there gives %v", err)
		}
		if lists := slices.ContainsFunc(memory.Calls(), func(c objectstest.Call) bool { return c.Kind == objectstest.List }); lists != (lines > few) {
			t.Errorf("%d images were looked for by a list: %v", lines, lists)
		}
	}
}

func TestAStoreWithoutListsIsAskedWhenItIsRead(t *testing.T) {
	var lst strings.Builder
	for i := range 1500 {
		fmt.Fprintf(&lst, "%d\t1\t%d.jpg\n", i, i)
	}
	s, err := Open(t.Context(), noLists{store(lst.String(), "3.jpg")}, Config{File: "a.lst"})
	if err != nil {
		t.Fatal(err)
	}
	if e, err := s.Read(t.Context(), 3, nil); err != nil || string(e.Image) != "3.jpg" {
		t.Errorf("got %q and error %v, want 3.jpg", e.Image, err)
	}
	var bad *source.BadError
	if _, err := s.Read(t.Context(), 4, nil); !errors.As(err, &bad) || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("reading an image that is not there gives %v, want a *BadError", err)
	}
	if r, ok := s.Range(3); ok {
		t.Errorf("an image of unknown size has the range %+v", r)
	}
}

func TestImagesMayLieElsewhere(t *testing.T) {
	lists := store("0\t1\tx.jpg\n")
	images := store("", "deep/down/x.jpg")
	s, err := Open(t.Context(), lists, Config{File: "a.lst", Images: images, Root: "deep/down"})
	if err != nil {
		t.Fatal(err)
	}
	if e, err := s.Read(t.Context(), 0, nil); err != nil || string(e.Image) != "deep/down/x.jpg" {
		t.Errorf("got %q and error %v", e.Image, err)
	}
	if err := s.Close(); err != nil || !images.Closed() || lists.Closed() {
		t.Errorf("the images' store is closed: %v, the list's: %v, error %v; want the first alone", images.Closed(), lists.Closed(), err)
	}
}

func TestAStorageThatFailsIsNoMissingImage(t *testing.T) {
	broken := errors.New("broken")
	s := store("0\t1\tx.jpg\n", "x.jpg")
	s.Fail = func(c objectstest.Call) error {
		if c.Kind == objectstest.Stat && c.Name == "x.jpg" {
			return broken
		}
		return nil
	}
	if _, err := Open(t.Context(), s, Config{File: "a.lst"}); !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
}

// FuzzParse parses any bytes; what was found is found again when it is written down.
func FuzzParse(f *testing.F) {
	f.Add("5\t1.000000\tx/1.jpg\r\n\n3\t2\t0.5\t-1e3\ty 2.jpg\n")
	f.Add("0\t1\t../x\n")
	f.Fuzz(func(t *testing.T, text string) {
		var lst strings.Builder
		write := func(w io.Writer) func(string, []float32) {
			return func(name string, labels []float32) {
				fmt.Fprint(w, 0)
				for _, l := range labels {
					fmt.Fprintf(w, "\t%g", l)
				}
				fmt.Fprintf(w, "\t%s\n", name)
			}
		}
		if parse(strings.NewReader(text), "", write(&lst)) != nil {
			return
		}
		var again strings.Builder
		if err := parse(strings.NewReader(lst.String()), "", write(&again)); err != nil || again.String() != lst.String() {
			t.Errorf("%q is read as %q, and that as %q, error %v", text, lst.String(), again.String(), err)
		}
	})
}
