// Package watch reports what changes in a folder while it changes, by the kernel's
// own notices, and by looking at all of it again where those were lost.
//
//	err := watch.Run(ctx, watch.Options{Dir: dir}, func(c runner.FileChange) error { … })
//
// Changes are gathered until it is quiet for a moment, so a file that is written
// in many steps is reported once or twice, and a burst at a bounded rate, each
// file at most once in it. Links are not followed, and nothing outside of the
// folder is looked at, whatever is put in a file's place meanwhile.
package watch
