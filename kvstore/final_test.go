package kvstore_test

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/paragon-train/paragon/internal/observe/exitreport"
	"github.com/paragon-train/paragon/kvstore"
)

// launch hears of errors that no restart can mend: of those of Create, and of a program's own.
func TestFinalErrorsAreTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report")
	t.Setenv(exitreport.Variable, path)
	want := func(what string, err error, cause exitreport.Cause) {
		t.Helper()
		if got := exitreport.Take(path); got != (exitreport.Report{Cause: cause, Text: err.Error()}) || !errors.Is(err, kvstore.ErrFinal) {
			t.Errorf("%s: got report %+v and error %v, want cause %s, the error's text, and ErrFinal", what, got, err, cause)
		}
	}
	_, err := kvstore.Create(t.Context(), "dist_fast")
	want("an unknown type", err, exitreport.Usage)
	_, err = kvstore.Create(t.Context(), "dist_sync", kvstore.WithStaleness(1))
	want("an option of another type", err, exitreport.Usage)
	t.Run("a variable", func(t *testing.T) {
		t.Setenv("DMLC_ROLE", "worker")
		_, err = kvstore.Create(t.Context(), "dist_sync")
		want("some variables of a job", err, exitreport.Usage)
	})
	want("a missing file", kvstore.Final(fs.ErrNotExist), exitreport.MissingFile)
	want("the program's own", kvstore.Final(errors.New("--epochs is 0")), exitreport.Program)
	if err := kvstore.Final(nil); err != nil {
		t.Errorf("Final(nil) is %v", err)
	}

	_ = kvstore.Final(errors.New("the first try"))
	kv, err := kvstore.Create(t.Context(), "local")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		err := kvstore.Leave(kv, fmt.Errorf("--freeze: %w", exitreport.Final(exitreport.Usage, errors.New("matches nothing"))))
		want("an error that ends the worker's part", err, exitreport.Usage)
	}()
	if got := exitreport.Take(path); got != (exitreport.Report{}) {
		t.Errorf("after a store was made: got report %+v, want none: the program has gone on", got)
	}
}
