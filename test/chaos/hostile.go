package chaos

import "time"

// hostile are scripts whose tools leave behind what could keep a session from being
// closed, or stop its worker. Every turn must end, with an answer or a named failure,
// and so must the close.
var hostile = []string{
	"SAY " + mark + " locks THEN TOOL bash: mkdir -p locked/in; chmod 000 locked/in locked . \"$HOME\" THEN SAY " + mark + " locked",
	"SAY " + mark + " digs THEN TOOL bash: d=$(printf 'x%.0s' $(seq 50)); for i in $(seq 500); do mkdir $d && cd -P $d || break; done; echo $i THEN SAY " + mark + " dug",
	"SAY " + mark + " shouts THEN TOOL bash: head -c 30000000 /dev/zero | tr '\\0' x; echo THEN SAY " + mark + " shouted",
	"SAY " + mark + " spoils THEN TOOL bash: for f in $(find \"$HOME\" -name '*.jsonl'); do head -c 300000000 /dev/zero | tr '\\0' x >> \"$f\"; done THEN SAY " + mark + " spoilt",
	fills,
}

// firstHostile is the number before those of hostile sessions.
const firstHostile = 700

// hostile runs a hostile script in a session of its own, beside the others. Scripts
// that fill a disk are kept for the end.
func (d *driver) hostile(pick uint64) bool {
	agent := d.o.Agents[pick%uint64(len(d.o.Agents))]
	script := hostile[pick/7%uint64(len(hostile))]
	if script == fills {
		d.disks = append(d.disks, agent)
		return true
	}
	d.mu.Lock()
	d.hostiles++
	n := firstHostile + d.hostiles
	d.mu.Unlock()
	ctx := d.running
	d.hosts.owned.Go(func() {
		s, err := d.open(ctx, n, agent)
		if err != nil {
			d.fault(Finding{Fault: Stuck, Kind: HostileTool, Agent: agent, Detail: err.Error()})
			return
		}
		s.hostile = true
		s.say(ctx, script)
		s.finish(ctx)
	})
	return true
}

// hostileHit returns the hit for the turn of a hostile script.
func hostileHit() []Hit { return []Hit{{Kind: HostileTool, At: time.Now()}} }
