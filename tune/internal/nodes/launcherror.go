package nodes

import "strings"

// WithoutLaunch returns an error of a package that tune shares with launch, without launch's name
// before it.
func WithoutLaunch(err error) error {
	if err == nil {
		return nil
	}
	return withoutLaunch{err}
}

type withoutLaunch struct{ error }

func (e withoutLaunch) Error() string { return strings.TrimPrefix(e.error.Error(), "launch: ") }
func (e withoutLaunch) Unwrap() error { return e.error }
