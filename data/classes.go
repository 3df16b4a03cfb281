package data

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/paragon-train/paragon/internal/files/objects"
)

// ClassesFile is the name of a text file beside .rec files and tar shards that names their classes,
// which the formats do not: the name of label 0 on the first line, that of label 1 on the second,
// and so on.
const ClassesFile = "classes.txt"

// mostClassesBytes bounds a ClassesFile.
const mostClassesBytes = 64 << 20

// ReadClasses reads a ClassesFile: the names of the classes by label.
func ReadClasses(ctx context.Context, url string) ([]string, error) {
	store, object, err := objects.OpenFile(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("data: classes: %w", err)
	}
	names, err := readClasses(ctx, store, object)
	return names, errors.Join(err, store.Close())
}

// classesBeside reads the ClassesFile of a store; nil: there is none.
func classesBeside(ctx context.Context, store objects.Store) ([]string, error) {
	object, err := store.Stat(ctx, ClassesFile)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		// A bucket that may not be listed says of what is not there that it is forbidden.
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("data: open: %w", err)
	}
	return readClasses(ctx, store, object)
}

func readClasses(ctx context.Context, store objects.Store, object objects.Info) (names []string, err error) {
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("data: classes: %s in %s: %s", object.Name, store.URL(), fmt.Sprintf(format, args...))
	}
	if object.Size > mostClassesBytes {
		return nil, wrong("got %d bytes, want a name on a line, at most %d bytes", object.Size, mostClassesBytes)
	}
	r := objects.NewReader(ctx, store, object)
	defer r.Close()
	lines := bufio.NewScanner(r)
	at := map[string]int{}
	for lines.Scan() {
		name := strings.TrimRight(lines.Text(), "\r")
		if name == "" {
			return nil, wrong("line %d is empty, want the name of class %d", len(names)+1, len(names))
		}
		if before, ok := at[name]; ok {
			return nil, wrong("lines %d and %d both name %q, want each class once", before+1, len(names)+1, name)
		}
		at[name] = len(names)
		names = append(names, name)
	}
	if err := lines.Err(); err != nil {
		return nil, wrong("line %d: %v", len(names)+1, err)
	}
	if len(names) == 0 {
		return nil, wrong("it is empty, want the name of a class on each line")
	}
	return names, nil
}
