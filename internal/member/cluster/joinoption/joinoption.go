// Package joinoption lets package joining make an option of kvstore.Create that programs cannot
// name: it carries a cluster.Config, and no public signature may have an internal type.
package joinoption

import "github.com/paragon-train/paragon/internal/member/cluster"

// option makes a kvstore.Option. Package kvstore provides it while it is initialised, and nothing
// changes it afterwards.
var option func(cfg any) any

// Provide is called once, by package kvstore. It returns a value so that a declaration can call it.
// f gets a *cluster.Config. Its type does not say so, for a program that only imports kvstore would
// link all that a Config names.
func Provide(f func(cfg any) any) struct{} {
	option = f
	return struct{}{}
}

// Option returns the kvstore.Option with which kvstore.Create joins the job of cfg.
func Option(cfg cluster.Config) any { return option(&cfg) }
