// Package data reads the data sets that the examples train on and hands them
// out in batches.
//
// A Dataset has a length and gives example i as bytes and a label. LoadCIFAR10
// and LoadMNIST read the files as their authors publish them and check what
// they read; Synthetic draws a set of the same shape as CIFAR-10 for machines
// that have no data; LoadCriteo reads rows of clicks. FetchCIFAR10 and
// FetchMNIST download the files.
//
// A Loader takes the order of the examples from outside (package sampler gives
// it), reads ahead in parallel into a fixed number of buffers, and augments.
// What example i of epoch e looks like depends on (seed, e, i) alone, not on
// how many goroutines read or on when.
//
//	train, test, err := data.LoadCIFAR10("data/cifar10")
//	s, err := sampler.Split(train.Len(), store.NumWorkers(), store.Rank(), sampler.Ordered(sampler.Permutation))
//	l, err := data.NewLoader(train, s.Epoch(e), data.LoaderConfig{
//		BatchSize: 64,
//		Augment:   data.Augment{Pad: 4, Flip: true, Mean: data.CIFAR10Mean, Std: data.CIFAR10Std},
//		Epoch:     e,
//	})
//	defer l.Close()
//	for {
//		b, err := l.Next(ctx)
//		if err == io.EOF {
//			break
//		}
//		// b.Images holds b.N images; they are good until the next call of Next
//	}
//
// A data set that is an ExampleReader may draw random numbers as it reads, as for a random crop,
// have labels of several numbers, and say that an example is damaged (BadExampleError), which a
// Loader then leaves out within a budget. Mix mixes images and labels.
//
// A Table (OpenTable) has rows of named columns, as in CSV, TSV, NumPy's arrays or Parquet, and
// reads them by number from where they lie, by blocks; Clicks (OpenClicks) are rows of Criteo's
// sets as LoadCriteo gives them, of files that need not fit in memory. Read in the Order that they
// give, they decode each block once.
//
//	table, err := data.OpenTable(ctx, "s3://bucket/rows", data.TableConfig{Columns: []string{"label", "price", "shop"}})
//	var rows data.Rows
//	err = table.Read(ctx, []int{7, 12}, &rows) // rows.Columns[1].Floats[0] is the price of row 7
//
// A file that is short, damaged or not what it should be is an error that
// names the file, the byte and what to do. Nothing here panics on bad data.
package data
