package worker

import (
	"fmt"

	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// versioning is this worker's part in Temporal's Worker Versioning: the zero value takes
// none, so any worker may run any session.
//
// Only the workflows and the light activities beside them are versioned. The task queues of
// a host are not: a host has one worker, whatever its build, and a sandbox does not move
// because its session does.
type versioning struct {
	version worker.WorkerDeploymentVersion
	// sessions is when a session moves to another version.
	sessions workflow.VersioningBehavior
}

// Values of SOJOURN_VERSIONING.
const (
	// autoUpgrade: a session moves to the current version with its next step, also in the
	// middle of a turn.
	autoUpgrade = "auto-upgrade"
	// pinned: a session moves when its run continues as new, which it does between two
	// turns as soon as another version is the current one. The turn in which that happens
	// ends on the version on which it began.
	pinned = "pinned"
)

// readVersioning reads the names that Temporal's Worker Controller sets for the workers that
// it starts, and how sessions move.
func (s *options) readVersioning() error {
	const deployment, build, behavior = "TEMPORAL_DEPLOYMENT_NAME", "TEMPORAL_WORKER_BUILD_ID", "SOJOURN_VERSIONING"
	v := worker.WorkerDeploymentVersion{DeploymentName: s.Get(deployment), BuildID: s.Get(build)}
	given := s.Get(behavior)
	switch {
	case v == worker.WorkerDeploymentVersion{} && given == "":
		return nil
	case v.DeploymentName == "":
		return usageError(fmt.Sprintf("%s is not set; it is the name of the worker deployment that has the build %q", deployment, v.BuildID))
	case v.BuildID == "":
		return usageError(fmt.Sprintf("%s is not set; it is the id of this worker's build in the deployment %q", build, v.DeploymentName))
	}
	s.versioning.version = v
	switch given {
	case "", autoUpgrade:
		s.versioning.sessions = workflow.VersioningBehaviorAutoUpgrade
	case pinned:
		s.versioning.sessions = workflow.VersioningBehaviorPinned
	default:
		return usageError(fmt.Sprintf("%s is %q; it must be %s or %s", behavior, given, autoUpgrade, pinned))
	}
	return nil
}

// deployment returns the options of a worker of versioned task queues. Workflows without a
// behavior of their own move at once: they are short.
func (v versioning) deployment() worker.DeploymentOptions {
	if v.sessions == workflow.VersioningBehaviorUnspecified {
		return worker.DeploymentOptions{}
	}
	return worker.DeploymentOptions{UseVersioning: true, Version: v.version, DefaultVersioningBehavior: workflow.VersioningBehaviorAutoUpgrade}
}
