// Package watch reports what changes in a folder while it changes, by the
// kernel's notices, and by scanning all of it again if notices were lost.
//
//	err := watch.Run(ctx, watch.Options{Dir: dir}, func(c runner.FileChange) error { … })
//
// Changes are collected until there are none for a moment, so a file that is
// written in many steps is reported once or twice, and a burst at a bounded rate,
// each file at most once in it. Links are not followed, and nothing outside the
// folder is read, even if a file is replaced meanwhile.
package watch
