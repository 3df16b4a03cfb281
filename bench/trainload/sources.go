package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/paragon-train/paragon/data"
)

// A repeated data set has as many examples as are asked for, over and over the same.
type repeated struct {
	data.Dataset
	n int
}

func (r repeated) Len() int { return r.n }

func (r repeated) Read(i int, dst []uint8) (int, error) {
	return r.Dataset.Read(i%r.Dataset.Len(), dst)
}

// LabelWidth implements data.ExampleReader.
func (r repeated) LabelWidth() int { return 0 }

// ReadExample implements data.ExampleReader.
func (r repeated) ReadExample(ctx context.Context, i int, e *data.Example) (err error) {
	if x, ok := r.Dataset.(data.ExampleReader); ok {
		return x.ReadExample(ctx, i%r.Dataset.Len(), e)
	}
	e.Label, err = r.Read(i, e.Pixels)
	return err
}

// Announce implements data.Announcer.
func (r repeated) Announce(ctx context.Context, indices []int) {
	if a, ok := r.Dataset.(data.Announcer); ok {
		for k := range indices {
			indices[k] %= r.Dataset.Len()
		}
		a.Announce(ctx, indices)
	}
}

// pixels is a data set in memory. Unlike data.ImageSet it takes any label.
type pixels struct {
	shape  data.Shape
	all    []uint8
	labels []int
}

func (p *pixels) Len() int          { return len(p.labels) }
func (p *pixels) Shape() data.Shape { return p.shape }

func (p *pixels) Read(i int, dst []uint8) (int, error) {
	copy(dst, p.all[i*p.shape.Size():(i+1)*p.shape.Size()])
	return p.labels[i], nil
}

// inMemory reads the first n images once, as they are in an epoch.
func inMemory(ctx context.Context, m *data.Images, n int) (*pixels, error) {
	order := func(yield func(int) bool) {
		for i := range n {
			if !yield(i) {
				return
			}
		}
	}
	l, err := data.NewLoader(m, order, data.LoaderConfig{BatchSize: 16, Raw: true, Last: data.ShortLast})
	if err != nil {
		return nil, err
	}
	defer l.Close()
	p := &pixels{shape: m.Shape()}
	for {
		b, err := l.Next(ctx)
		if errors.Is(err, io.EOF) {
			return p, nil
		}
		if err != nil {
			return nil, err
		}
		p.all = append(p.all, b.Pixels...)
		for _, label := range b.Labels {
			p.labels = append(p.labels, int(label))
		}
	}
}

// serve serves a folder over HTTP, with a pause before each answer.
func serve(dir string, latency time.Duration) (address string, end func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	files := http.FileServer(http.Dir(dir))
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(latency)
		files.ServeHTTP(w, r)
	}), ReadHeaderTimeout: time.Minute}
	ended := make(chan struct{})
	go func() {
		defer close(ended)

		// It ends with Close.
		_ = server.Serve(l)
	}()
	return "http://" + l.Addr().String(), func() {
		_ = server.Close()
		<-ended
	}, nil
}
