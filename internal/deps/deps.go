package deps

import (
	_ "github.com/chewxy/hm"
	_ "github.com/google/go-cmp/cmp"
	_ "github.com/schollz/progressbar/v3"
	_ "github.com/urfave/cli/v2"
	_ "github.com/valyala/fasthttp"
	_ "github.com/valyala/fastrpc"
	_ "golang.org/x/sync/errgroup"
	_ "golang.org/x/sys/unix"
	_ "golang.org/x/term"
	_ "gonum.org/v1/gonum/blas/gonum"
	_ "gonum.org/v1/plot"
	_ "gonum.org/v1/plot/plotter"
	_ "gonum.org/v1/plot/vg/vgimg"
	_ "gorgonia.org/gorgonia"
	_ "gorgonia.org/tensor"
)
