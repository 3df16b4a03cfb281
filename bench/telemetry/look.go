package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"time"

	"github.com/paragon-train/paragon/internal/control"
	"github.com/paragon-train/paragon/internal/page"
)

// nobody is the kind of the baseline windows, in which the job is not observed.
const nobody = "nobody looks"

// A kind is a way to look at a job. look returns when the window has ended, and calls begun when it begins; after is called behind it.
type kind struct {
	name string
	look func(ctx context.Context, j *job, window time.Duration, begun func()) (after func(ctx context.Context) error, err error)
}

var kinds = []kind{{"spans are recorded", record}, {"metrics are scraped", scrape}, {"a page is open", watch}}

// A window is a time in which the job was looked at in one way.
type window struct {
	kind     string
	cycle    int
	from, to time.Time
	steps    []float64 // seconds: mean steps of a worker in a second
}

// look goes through all windows.
func (j *job) look(ctx context.Context, c *config) (all []window, err error) {
	for cycle := range c.cycles {
		for i := range kinds {
			k := kinds[(cycle+i)%len(kinds)] // in turns, so that none always follows another
			w := window{kind: nobody, cycle: cycle, from: time.Now()}
			if err := pause(ctx, c.window); err != nil {
				return nil, err
			}
			w.to = time.Now()
			all = append(all, w)

			w = window{kind: k.name, cycle: cycle}
			after, err := k.look(ctx, j, c.window, func() { w.from = time.Now() })
			w.to = time.Now()
			if err == nil && after != nil {
				err = after(ctx)
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", k.name, err)
			}
			all = append(all, w)
		}
	}
	return all, nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// record has all processes record spans, as launch ctl trace does, which are fetched behind the window.
func record(ctx context.Context, j *job, length time.Duration, begun func()) (func(context.Context) error, error) {
	var t control.Trace
	if err := j.Ask(ctx, control.Request{Op: control.OpTrace, WindowMillis: length.Milliseconds()}, &t); err != nil {
		return nil, err
	}
	if err := pause(ctx, time.Duration(t.StartMillis)*time.Millisecond); err != nil {
		return nil, err
	}
	begun()
	if err := pause(ctx, length); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		bytes, after := 0, uint64(0)
		err := j.Until(ctx, "the spans are here", func() (bool, error) {
			var p control.TraceParts
			if err := j.Ask(ctx, control.Request{Op: control.OpTraceParts, Trace: t.Trace, After: after}, &p); err != nil {
				return false, err
			}
			for _, x := range p.Chunks {
				bytes, after = bytes+len(x.Data), x.Number
			}
			for _, n := range p.Nodes {
				if n.Dropped > 0 || n.Missing != "" {
					return false, fmt.Errorf("%s %d dropped %d spans: %s", n.Role, n.Rank, n.Dropped, n.Missing)
				}
			}
			return p.State == control.TraceDone && after == p.Last, nil
		})
		if err == nil && bytes == 0 {
			err = errors.New("no process has recorded anything")
		}
		return errors.Join(err, j.Ask(ctx, control.Request{Op: control.OpTraceEnd, Trace: t.Trace}, &control.Done{}))
	}, nil
}

// scrape reads the metrics each second, as Prometheus does.
func scrape(ctx context.Context, j *job, length time.Duration, begun func()) (func(context.Context) error, error) {
	client := &http.Client{Timeout: 5 * time.Second}
	defer client.CloseIdleConnections()
	begun()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for end := time.Now().Add(length); time.Now().Before(end); {
		if _, err := get(ctx, client, *j.metrics.Load()); err != nil {
			return nil, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return nil, nil
}

// get reads all of an answer, which must not be empty.
func get(ctx context.Context, client *http.Client, url string) (n int64, err error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	r, err := client.Do(q)
	if err != nil {
		return 0, err
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("get %s: %s", q.URL.Path, r.Status)
	}
	if n, err = io.Copy(io.Discard, r.Body); err == nil && n == 0 {
		err = fmt.Errorf("get %s: nothing came", q.URL.Path)
	}
	return n, err
}

// watch opens the page, and reads its events as a browser does.
func watch(ctx context.Context, j *job, length time.Duration, begun func()) (func(context.Context) error, error) {
	url, key, err := j.page()
	if err != nil {
		return nil, err
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Jar: jar}
	defer client.CloseIdleConnections()
	if _, err := get(ctx, client, page.Key(key).Link(url)); err != nil { // with a cookie from now on
		return nil, err
	}
	begun()
	within, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	q, err := http.NewRequestWithContext(within, http.MethodGet, url+"api/events", nil)
	if err != nil {
		return nil, err
	}
	r, err := client.Do(q)
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	n, err := io.Copy(io.Discard, r.Body)
	switch {
	case r.StatusCode != http.StatusOK || n == 0:
		return nil, fmt.Errorf("events: %s, %d bytes", r.Status, n)
	case within.Err() == nil:
		return nil, fmt.Errorf("events: the stream ended early: %v", err)
	}
	return nil, ctx.Err()
}
