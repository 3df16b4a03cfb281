// Package shards finds the files that a data set of several consists of: by a pattern, in its
// order.
package shards

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/paragon-train/paragon/internal/files/objects"
)

// maxShards bounds how many names a pattern may stand for.
const maxShards = 1_000_000

// Names are the names that a pattern of shards stands for, in order: braces {000..123} and {a,b}
// are expanded, and several patterns are joined by "::". The stars of a pattern are left as they
// are.
func Names(pattern string) ([]string, error) {
	var names []string
	for part := range strings.SplitSeq(pattern, "::") {
		if part == "" {
			return nil, fmt.Errorf("shards %q: got an empty name beside ::", pattern)
		}
		expanded, err := expand(part)
		if err != nil {
			return nil, fmt.Errorf("shards %q: %w", pattern, err)
		}
		if names = append(names, expanded...); len(names) > maxShards {
			return nil, fmt.Errorf("shards %q: %w", pattern, errTooMany)
		}
	}
	return names, nil
}

var errTooMany = fmt.Errorf("stands for more than %d shards", maxShards)

// expand expands the first pair of braces, what it holds, and what follows it.
func expand(s string) ([]string, error) {
	open := strings.IndexByte(s, '{')
	if open < 0 {
		if strings.IndexByte(s, '}') >= 0 {
			return nil, errors.New("got } without {")
		}
		return []string{s}, nil
	}
	depth, end := 0, -1
	cuts := []int{open}
	for i := open; i < len(s) && end < 0; i++ {
		switch s[i] {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				end = i
			}
		case ',':
			if depth == 1 {
				cuts = append(cuts, i)
			}
		}
	}
	if end < 0 {
		return nil, errors.New("got { without }")
	}
	cuts = append(cuts, end)
	var middles []string
	if len(cuts) == 2 {
		var err error
		if middles, err = sequence(s[open+1 : end]); err != nil {
			return nil, err
		}
	} else {
		for k := 1; k < len(cuts); k++ {
			more, err := expand(s[cuts[k-1]+1 : cuts[k]])
			if err != nil {
				return nil, err
			}
			middles = append(middles, more...)
		}
	}
	tails, err := expand(s[end+1:])
	if err != nil {
		return nil, err
	}
	if len(middles)*len(tails) > maxShards {
		return nil, errTooMany
	}
	all := make([]string, 0, len(middles)*len(tails))
	for _, middle := range middles {
		for _, tail := range tails {
			all = append(all, s[:open]+middle+tail)
		}
	}
	return all, nil
}

// sequence expands 000..123, a..f, and each with a step behind a second "..". Numbers keep their
// leading zeros.
func sequence(s string) ([]string, error) {
	bad := fmt.Errorf("got {%s}, want {first..last} or {a,b}", s)
	parts := strings.Split(s, "..")
	if len(parts) != 2 && len(parts) != 3 {
		return nil, bad
	}
	step := 1
	if len(parts) == 3 {
		var err error
		if step, err = strconv.Atoi(parts[2]); err != nil || step == 0 {
			return nil, bad
		}
		step = max(step, -step)
	}
	letter := len(parts[0]) == 1 && len(parts[1]) == 1 && isLetter(parts[0][0]) && isLetter(parts[1][0])
	var first, last int
	if letter {
		first, last = int(parts[0][0]), int(parts[1][0])
	} else {
		for k, to := range []*int{&first, &last} {
			n, err := strconv.ParseUint(parts[k], 10, 62)
			if err != nil {
				return nil, bad
			}
			*to = int(n)
		}
	}
	width := 0
	if !letter && (strings.HasPrefix(parts[0], "0") || strings.HasPrefix(parts[1], "0")) {
		width = max(len(parts[0]), len(parts[1]))
	}
	if width > 256 || max(last-first, first-last)/step >= maxShards {
		return nil, errTooMany
	}
	var all []string
	add := func(n int) {
		if letter {
			all = append(all, string(rune(n)))
		} else {
			all = append(all, fmt.Sprintf("%0*d", width, n))
		}
	}
	if first <= last {
		for n := first; n <= last; n += step {
			add(n)
		}
	} else {
		for n := first; n >= last; n -= step {
			add(n)
		}
	}
	return all, nil
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// Find finds the objects of a pattern in its order. A star, a question mark or a bracket stands for
// what path.Match says, and for all objects of that form by name.
func Find(ctx context.Context, store objects.Store, pattern string) ([]objects.Info, error) {
	names, err := Names(pattern)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", store.URL(), err)
	}
	var found []objects.Info
	for len(names) > 0 {
		plain := 0
		for plain < len(names) && !strings.ContainsAny(names[plain], "*?[") {
			plain++
		}
		more, err := Stat(ctx, store, names[:plain])
		if err != nil {
			return nil, err
		}
		found, names = append(found, more...), names[plain:]
		if len(names) == 0 {
			break
		}
		if more, err = match(ctx, store, names[0]); err != nil {
			return nil, err
		}
		found, names = append(found, more...), names[1:]
	}
	return found, nil
}

// Stat describes the objects of these names.
func Stat(ctx context.Context, store objects.Store, names []string) ([]objects.Info, error) {
	known := Known(ctx, store, names)
	var found []objects.Info
	for _, name := range names {
		info, ok := known[name]
		if !ok {
			var err error
			if info, err = store.Stat(ctx, name); err != nil {
				if errors.Is(err, fs.ErrNotExist) && len(names) > 1 {
					err = fmt.Errorf("shard %s of %d: %w", name, len(names), err)
				}
				return nil, err
			}
		}
		found = append(found, info)
	}
	return found, nil
}

// Hidden reports whether a part of a name begins with a dot.
func Hidden(name string) bool { return strings.HasPrefix(name, ".") || strings.Contains(name, "/.") }

// Known lists the folder of many names at once, which takes fewer requests than asking for each. A
// store that has no lists, such as a web server, knows nothing here.
func Known(ctx context.Context, store objects.Store, names []string) map[string]objects.Info {
	if len(names) < 8 {
		return nil
	}
	prefix := names[0]
	for _, name := range names {
		for !strings.HasPrefix(name, prefix) {
			prefix = prefix[:len(prefix)-1]
		}
	}
	known := make(map[string]objects.Info)
	for info, err := range store.List(ctx, prefix) {
		// A prefix that stands for far more than the shards costs more than it saves.
		if err != nil || len(known) > 4*len(names)+1000 {
			break
		}
		known[info.Name] = info
	}
	return known
}

// match finds the objects of a pattern with stars, by name.
func match(ctx context.Context, store objects.Store, pattern string) ([]objects.Info, error) {
	if _, err := path.Match(pattern, ""); err != nil {
		return nil, fmt.Errorf("%s: shards %q: %w", store.URL(), pattern, err)
	}
	var shards []objects.Info
	for info, err := range store.List(ctx, pattern[:strings.IndexAny(pattern, "*?[")]) {
		if err != nil {
			return nil, err
		}
		if ok, err := path.Match(pattern, info.Name); err == nil && ok {
			shards = append(shards, info)
		}
	}
	if len(shards) == 0 {
		return nil, fmt.Errorf("%s: no shards are there that %q stands for: %w", store.URL(), pattern, fs.ErrNotExist)
	}
	return shards, nil
}
