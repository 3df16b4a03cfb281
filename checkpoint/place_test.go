package checkpoint

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
)

// The URI of a file is that of a place and a name there, and Join puts them together again.
func TestURIsAreSplitAndJoined(t *testing.T) {
	for _, c := range []struct{ uri, place, name, want string }{
		{"run/model.safetensors", "run", "model.safetensors", ""},
		{"/run/model.safetensors", "/run", "model.safetensors", ""},
		{"s3://bucket/run/model.safetensors", "s3://bucket/run/", "model.safetensors", ""},
		{"s3://bucket/model.safetensors", "s3://bucket/", "model.safetensors", ""},
		{"s3://bucket/a/b/m?region=x", "s3://bucket/a/b/?region=x", "m", ""},
		{"s3://bucket/run/", "", "", "got no name of a file, want one after the last slash"},
		{"s3://bucket", "", "", "got no name of a file"},
		{"s3://buc ket/m", "", "", "checkpoint: "},
		{"file://elsewhere/m", "", "", "checkpoint: "},
	} {
		place, name, err := SplitURI(c.uri)
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: got %v, want an error with %q", c.uri, err, c.want)
			}
			continue
		}
		if err != nil || place != c.place || name != c.name {
			t.Errorf("%s: got %q and %q, error %v, want %q and %q", c.uri, place, name, err, c.place, c.name)
		}
	}
	if got := Join("s3://bucket/run", "step-1", "m"); got != "s3://bucket/run/step-1/m" {
		t.Errorf("join: got %s", got)
	}
	if got := Join("run", "step-1", "m"); got != filepath.Join("run", "step-1", "m") {
		t.Errorf("join: got %s", got)
	}
}

// shelf is a Place in memory whose files fail as their names say.
type shelf map[string]Source

var errShelf = errors.New("the shelf broke")

func (s shelf) Write(_ context.Context, name string, write func(io.Writer) error) error {
	if name == "full" {
		return errShelf
	}
	return write(io.Discard)
}
func (s shelf) Open(_ context.Context, name string) (Source, error) {
	if s[name] == nil {
		return nil, errShelf
	}
	return s[name], nil
}
func (shelf) List(context.Context, string) ([]string, error) { return nil, nil }
func (shelf) Remove(context.Context, string) error           { return nil }
func (shelf) Close() error                                   { return nil }

// source is a file whose size cannot be told, or whose bytes from failsAt on cannot be read.
type source struct {
	*strings.Reader
	noSize  bool
	failsAt int64
	closed  bool
}

func (s *source) ReadAt(p []byte, at int64) (int, error) {
	if s.failsAt > 0 && at+int64(len(p)) > s.failsAt {
		return 0, errShelf
	}
	return s.Reader.ReadAt(p, at)
}
func (s *source) Size() (int64, error) {
	if s.noSize {
		return 0, errShelf
	}
	return s.Reader.Size(), nil
}
func (s *source) Close() error { s.closed = true; return nil }

// What a place cannot do is an error that says so, and a file that is of no use is closed.
func TestFaultsOfAPlaceAreTold(t *testing.T) {
	empty := string(raw("{}", ""))
	whole := string(raw(`{"w":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}`, "12"))
	s := shelf{"no size": &source{Reader: strings.NewReader(empty), noSize: true}, "no header": &source{Reader: strings.NewReader(empty), failsAt: 8},
		"no length": &source{Reader: strings.NewReader(empty), failsAt: 1}, "no data": &source{Reader: strings.NewReader(whole), failsAt: int64(len(whole)) - 1}}
	for _, name := range []string{"no size", "no header", "no length", "not there"} {
		f, err := OpenIn(t.Context(), s, name)
		if f != nil || !errors.Is(err, errShelf) || !strings.HasPrefix(err.Error(), "checkpoint: ") {
			t.Errorf("%s: got %v and error %v, want %v", name, f, err, errShelf)
		}
		if x, ok := s[name].(*source); ok && !x.closed {
			t.Errorf("%s: the file was not closed", name)
		}
	}
	f, err := OpenIn(t.Context(), s, "no data")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.ReadUint8s("w", make([]uint8, 2)); !errors.Is(err, errShelf) || !strings.Contains(err.Error(), `tensor "w"`) {
		t.Errorf("data that cannot be read: got %v, want %v with the tensor's name", err, errShelf)
	}
	if err := f.Close(); err != nil || !s["no data"].(*source).closed {
		t.Errorf("close: %v", err)
	}
	if err := SaveTo(t.Context(), s, "full", nil, nil); !errors.Is(err, errShelf) || !strings.HasPrefix(err.Error(), "checkpoint: save: ") {
		t.Errorf("save: got %v, want %v", err, errShelf)
	}
	if err := SaveTo(t.Context(), s, "good", nil, nil); err != nil {
		t.Errorf("save: %v", err)
	}
}

// A URL whose scheme nobody registered is refused by name. A scheme is registered once, and its
// opener gets the URL.
func TestAPlaceIsOpenedByItsScheme(t *testing.T) {
	got := ""
	RegisterPlace("shelf-of-test", func(_ context.Context, u *url.URL) (Place, error) {
		got = u.String()
		return shelf{"m": &source{Reader: strings.NewReader(string(raw("{}", "")))}}, nil
	})
	f, err := OpenURI(t.Context(), "shelf-of-test://top/run/m")
	if err != nil || got != "shelf-of-test://top/run/" {
		t.Fatalf("got %v of %s", err, got)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if _, err := OpenPlace(t.Context(), "cupboard-of-test://top/run"); !errors.Is(err, ErrScheme) || !strings.Contains(err.Error(), "cupboard-of-test") {
		t.Errorf("a scheme that nobody has: got %v, want %v", err, ErrScheme)
	}
	for _, scheme := range []string{"shelf-of-test", "file"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("scheme %s is registered twice", scheme)
				}
			}()
			RegisterPlace(scheme, nil)
		}()
	}
}

// The shortest headers there are, whole and not.
func TestShortHeadersAreRefused(t *testing.T) {
	for _, header := range []string{"", "{", "}", "x", " {}", "[]"} {
		b := append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...)
		if _, err := NewFile(strings.NewReader(string(b)), int64(len(b)), "x"); !errors.Is(err, ErrDamaged) {
			t.Errorf("header %q: got %v, want %v", header, err, ErrDamaged)
		}
	}
	b := raw("{}", "")
	if f, err := NewFile(strings.NewReader(string(b)), int64(len(b)), "x"); err != nil || len(f.Tensors()) != 0 {
		t.Errorf("a file of no tensors: %v", err)
	}
}
