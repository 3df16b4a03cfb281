package objects

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
)

// A Leveler is a Backend that lists one level of names: then the folders of a large list are listed
// at once.
type Leveler interface {
	// Level is like Page, but has only the objects whose names have no slash behind the prefix,
	// and the folders of the others: what their names begin with up to and with that slash.
	Level(ctx context.Context, prefix, token string) (page []Info, folders []string, next string, err error)
}

const (
	// listersAtOnce is how many folders are listed at once.
	listersAtOnce = 16
	// fewFolders is below what it pays to list them at once; their own folders are looked at
	// instead.
	fewFolders = 4
	// listDepth is how many levels are looked at for folders.
	listDepth = 3
	// flatLimit is how many objects between its folders make a level flat: it is listed in one
	// go.
	flatLimit = 1000
)

func (r *remote) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		l := &remoteList{remote: r, prefix: prefix, yield: yield}
		if err := l.run(ctx); err != nil && !l.ended {
			yield(Info{}, fmt.Errorf("objects: list %q in %s: %w", prefix, r.URL(), err))
		}
	}
}

// A remoteList yields a list.
type remoteList struct {
	*remote
	prefix string
	yield  func(Info, error) bool

	// last is the name that was yielded last.
	last string

	// ended says that the caller wants no more.
	ended bool
}

// run yields the first page, and then, if there is more, the folders at once or page by page.
func (l *remoteList) run(ctx context.Context) error {
	var first []Info
	token, err := l.page(ctx, l.prefix, "", func(page []Info) error {
		first = page
		return l.add(page)
	})
	if err != nil || token == "" || l.ended {
		return err
	}
	if leveler, ok := l.backend.(Leveler); ok {
		parts, err := l.split(ctx, leveler, l.prefix, listDepth)
		if err != nil {
			return err
		}
		if folders(parts) >= fewFolders && cover(parts, first) {
			return l.parallel(ctx, parts)
		}
	}
	for token != "" && err == nil && !l.ended {
		token, err = l.page(ctx, l.prefix, token, l.add)
	}
	return err
}

// page asks for a page and returns the token of the next one.
func (r *remote) page(ctx context.Context, prefix, token string, use func([]Info) error) (next string, err error) {
	var page []Info
	request := func() string { return fmt.Sprintf("list %q in %s", prefix, r.URL()) }
	err = r.try(ctx, request, func(ctx context.Context, _ *Guard) (n int, err error) {
		page, next, err = r.backend.Page(ctx, prefix, token)
		return 0, err
	})
	if err == nil && next != "" && next == token {
		err = errors.New("the server gives the same page again and again")
	}
	if err != nil {
		return "", err
	}
	return next, use(page)
}

// add yields the objects of a page.
func (l *remoteList) add(page []Info) error {
	for _, info := range page {
		if info.Name <= l.last && l.last != "" {
			return fmt.Errorf("got %q after %q, want names in their byte order", info.Name, l.last)
		}
		l.last = info.Name
		if l.ended = !l.yield(info, nil); l.ended {
			return nil
		}
	}
	return nil
}

// A listPart is an object, or a folder and all below it.
type listPart struct {
	object Info

	// folder is empty if the entry is an object.
	folder string
}

func folders(parts []listPart) (n int) {
	for _, p := range parts {
		if p.folder != "" {
			n++
		}
	}
	return n
}

// cover reports whether each object of a page is one of the parts or below one. A server whose
// levels leave something out is listed page by page.
func cover(parts []listPart, page []Info) bool {
	for _, info := range page {
		for len(parts) > 0 && parts[0].object.Name != info.Name && (parts[0].folder == "" || !strings.HasPrefix(info.Name, parts[0].folder)) {
			parts = parts[1:]
		}
		if len(parts) == 0 {
			return false
		}
	}
	return true
}

// split returns the parts of a prefix in the order of their names. A level with many objects is one
// part.
func (l *remoteList) split(ctx context.Context, leveler Leveler, prefix string, depth int) (parts []listPart, err error) {
	objects := 0
	for token := ""; ; {
		var page []Info
		var below []string
		var next string
		request := func() string { return fmt.Sprintf("list the folders of %q in %s", prefix, l.URL()) }
		err := l.try(ctx, request, func(ctx context.Context, _ *Guard) (n int, err error) {
			page, below, next, err = leveler.Level(ctx, prefix, token)
			return 0, err
		})
		if err != nil {
			return nil, err
		}
		if objects += len(page); objects > flatLimit {
			return []listPart{{folder: prefix}}, nil
		}
		for len(page) > 0 || len(below) > 0 {
			if len(below) == 0 || len(page) > 0 && page[0].Name < below[0] {
				parts, page = append(parts, listPart{object: page[0]}), page[1:]
			} else {
				parts, below = append(parts, listPart{folder: below[0]}), below[1:]
			}
		}
		if next == "" || next == token {
			break
		}
		token = next
	}
	if n := folders(parts); n == 0 || n >= fewFolders || depth <= 1 {
		return parts, nil
	}
	var deeper []listPart
	for _, p := range parts {
		if p.folder == "" {
			deeper = append(deeper, p)
			continue
		}
		below, err := l.split(ctx, leveler, p.folder, depth-1)
		if err != nil {
			return nil, err
		}
		deeper = append(deeper, below...)
	}
	return deeper, nil
}

// pagesAhead is how many pages of a folder wait for those before it.
const pagesAhead = 4

// A folderList is a folder that is listed while those before it are yielded.
type folderList struct {
	pages chan []Info

	// err is set before pages is closed.
	err error
}

// parallel yields the parts that come after the last name, in order. Folders are listed at once.
func (l *remoteList) parallel(ctx context.Context, parts []listPart) error {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	lists := make(map[string]*folderList)
	var order []string
	for _, p := range parts {
		// What sorts before the last name and is not above it has been yielded.
		if p.folder != "" && (p.folder > l.last || strings.HasPrefix(l.last, p.folder)) {
			lists[p.folder] = &folderList{pages: make(chan []Info, pagesAhead)}
			order = append(order, p.folder)
		}
	}
	all.Go(func() { l.listFolders(ctx, &all, order, lists) })
	for _, p := range parts {
		var err error
		switch list := lists[p.folder]; {
		case p.folder == "" && p.object.Name > l.last:
			err = l.add([]Info{p.object})
		case list != nil:
			err = l.drain(list)
		}
		if err != nil || l.ended {
			return err
		}
	}
	return nil
}

// listFolders lists folders at once, but not too many. They begin in order, so that the one whose
// turn it is has always begun. all waits for what it starts.
func (l *remoteList) listFolders(ctx context.Context, all *sync.WaitGroup, order []string, lists map[string]*folderList) {
	turns := make(chan struct{}, listersAtOnce)
	for _, folder := range order {
		list := lists[folder]
		select {
		case turns <- struct{}{}:
			all.Go(func() {
				defer func() { <-turns }()
				defer close(list.pages)
				list.err = l.listFolder(ctx, folder, list.pages)
			})
		case <-ctx.Done():
			list.err = context.Cause(ctx)
			close(list.pages)
		}
	}
}

// listFolder sends the pages of a folder.
func (l *remoteList) listFolder(ctx context.Context, folder string, pages chan<- []Info) error {
	for token := ""; ; {
		next, err := l.page(ctx, folder, token, func(page []Info) error {
			select {
			case pages <- page:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
		if err != nil || next == "" {
			return err
		}
		token = next
	}
}

// drain yields the pages of a folder but what came before.
func (l *remoteList) drain(list *folderList) error {
	before := l.last
	for page := range list.pages {
		for len(page) > 0 && page[0].Name <= before {
			page = page[1:]
		}
		if err := l.add(page); err != nil || l.ended {
			return err
		}
	}
	return list.err
}
