// Package docstest runs the commands of a page of documentation, so that the page stays true.
//
// A page is Markdown. Its fenced blocks with the language sh or console hold commands, which are
// run from top to bottom in one terminal: the folder and exported variables go over from a block to
// the next. A block with the language text that comes next is their output. What a run has to know
// stands in HTML comments, which readers do not see, each on a line of its own directly before the
// block's fence:
//
//	<!-- not run: REASON -->      the block is not run
//	<!-- exit: 85 -->             its exit code, 0 by default
//	<!-- background: TEXT -->     it runs in another terminal; the page goes on when it prints a line with TEXT
//	<!-- replace: OLD => NEW -->  NEW is run where the block says OLD, such as a smaller job
//	<!-- file: PATH -->           the block, of any language, is the file PATH
//	<!-- slow -->                 it and the rest of the page are run with PARAGON_TEST_SLOW=1 only
//	<!-- timeout: 5m -->          its time limit, 2 minutes by default
//
// Others stand for themselves and are carried out between the blocks:
//
//	<!-- hosts: a1 a2 -->         from here on these are hosts that ssh reaches: stand-ins on loopback addresses
//	<!-- slurm: 4 -->             from here on there is a cluster of Slurm with so many nodes; without PARAGON_TEST_CLUSTERS=1 the page is skipped
//	<!-- needs: COMMAND -->       where it fails the rest of the page is skipped; with PARAGON_TEST_REQUIRE=all that is an error
//	<!-- run: COMMAND -->         a command that readers do not see
//	<!-- ctrl-c -->               Ctrl-C in the newest other terminal, and wait until its block has ended
//	<!-- wait -->                 wait until the block in the newest other terminal has ended by itself
//
// Output is compared line by line: each line of the page must be among the lines that came, in any
// order, since processes print at once. Numbers stand for any numbers, and so do runs of spaces or
// of the characters of bars and rules; "..." in a line stands for any text, and a line of "..." for
// lines that were left out.
package docstest
