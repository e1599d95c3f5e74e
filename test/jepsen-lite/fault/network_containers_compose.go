package fault

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/rotasched/rota/test/jepsen-lite/check"
)

// composition is docker-compose.yml and a second file with the overrides for this run: images of its own, fixed
// addresses, data under the run's directory, no fixed ports of the host, no restarts but ours, and more nodes and
// workers. With three nodes their commands are the shipped ones, word by word.
type composition struct {
	*containers
	words []string
	files []string
	image map[byte]string
	nodes int
}

const (
	// projectLabel is the label by which compose marks its objects, and this program its images.
	projectLabel = "com.docker.compose.project"
	// shipped is the number of nodes in docker-compose.yml.
	shipped = 3
	// maxAdded is the number of nodes that a nemesis and the end of a run may add.
	maxAdded = 21
)

// object is a part of a compose file; JSON is YAML.
type object map[string]any

func newComposition(words []string, k *containers, o Options) (*composition, error) {
	root, err := moduleRoot()
	if err != nil {
		return nil, err
	}
	second := filepath.Join(o.Keep, "docker-compose.json")
	c := &composition{containers: k, words: words, nodes: o.Nodes,
		files: []string{filepath.Join(root, "docker-compose.yml"), second},
		image: map[byte]string{'n': "rota:" + k.project, 'w': "jepsen-lite:" + k.project}}
	recipe, err := os.ReadFile(filepath.Join(root, "Dockerfile"))
	if err != nil {
		return nil, err
	}
	if err := c.build('n', string(recipe), "rota", o.Rota); err != nil {
		return nil, err
	}
	recipe = []byte("FROM scratch\nCOPY jepsen-lite /jepsen-lite\nENTRYPOINT [\"/jepsen-lite\"]\n")
	if err := c.build('w', string(recipe), "jepsen-lite", workerBinary(o.Keep)); err != nil {
		return nil, err
	}
	text, err := json.MarshalIndent(c.second(o), "", "  ")
	if err != nil {
		return nil, err
	}
	return c, os.WriteFile(second, text, 0o600)
}

// build makes an image of one static binary. The recipe for nodes is the repository's, which accepts any binary: also
// one with a planted bug.
func (c *composition) build(kind byte, recipe, name, binary string) error {
	dir, err := os.MkdirTemp(c.keep, "image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	text, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, name), text, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte(recipe), 0o600); err != nil {
		return err
	}
	_, err = docker("build", "--quiet", "--force-rm", "--label", projectLabel+"="+c.project, "--tag", c.image[kind],
		dir)
	return err
}

// second returns this run's overrides of docker-compose.yml.
func (c *composition) second(o Options) object {
	services, volumes := object{}, object{}
	for i := range o.Nodes + maxAdded {
		name := fmt.Sprintf("n%d", i+1)
		services[name] = c.node(i + 1)
		if i < shipped {
			volumes[name] = object{"driver": "local", "driver_opts": object{"type": "none", "o": "bind",
				"device": filepath.Join(c.keep, name)}}
		}
	}
	for i := range o.Workers {
		service := c.service(fmt.Sprintf("w%d", i+1))
		service["environment"] = object{RoleKey: RoleWorker}
		service["stdin_open"] = true
		service["logging"] = object{"driver": "none"} // only this program reads its output, which is large
		services[fmt.Sprintf("w%d", i+1)] = service
	}
	subnet := object{"config": []object{{"subnet": c.subnet.String()}}}
	return object{"version": "3.8", "services": services, "volumes": volumes,
		"networks": object{"rota": object{"ipam": subnet}}}
}

// service returns the settings common to all: this program records an end and begins a new life, as with processes.
func (c *composition) service(name string) object {
	return object{
		"image": c.image[name[0]], "container_name": c.container(name), "restart": "no",
		"user":     fmt.Sprintf("%d:%d", os.Getuid(), os.Getgid()), // this program reads the data
		"networks": object{"rota": object{"ipv4_address": c.address(name)}},
	}
}

func (c *composition) node(number int) object {
	name := fmt.Sprintf("n%d", number)
	service := c.service(name)
	service["environment"] = object{"ROTA_EVENTS_RETAINED": strconv.Itoa(check.EventsRetained)}
	if number > shipped {
		service["hostname"], service["volumes"] = name, []string{filepath.Join(c.keep, name) + ":/data"}
	}
	if number > shipped || c.nodes != shipped {
		service["command"] = c.command(number)
	}
	return service
}

// command returns a node's command after the pattern of docker-compose.yml.
func (c *composition) command(number int) []string {
	name := fmt.Sprintf("n%d", number)
	words := []string{"server", "--insecure", "--node=" + name, "--data=/data", "--api=" + name + ":6470",
		"--raft=" + name + ":6471", "--admin=127.0.0.1:6472", "--gossip=" + name + ":6473"}
	if number <= c.nodes {
		words = append(words, "--bootstrap-expect="+strconv.Itoa(c.nodes))
	}
	for i := range c.nodes {
		if i+1 != number {
			words = append(words, fmt.Sprintf("--join=n%d:6473", i+1))
		}
	}
	return words
}

func (c *composition) network() string { return c.project + "_rota" }

// create makes the containers of these services, not started.
func (c *composition) create(names ...string) error {
	for _, name := range names {
		if name[0] == 'n' {
			if err := os.MkdirAll(filepath.Join(c.keep, name), 0o700); err != nil {
				return err
			}
		}
	}
	words := append(c.words[:len(c.words):len(c.words)], "-p", c.project)
	for _, f := range c.files {
		words = append(words, "-f", f)
	}
	words = append(words, "up", "--no-start", "--no-deps", "--no-recreate")
	// No fixed port of the host: another run, or a cluster of the user's, may use it.
	var ports []string
	for i := range shipped {
		ports = append(ports, fmt.Sprintf("ROTA_N%d_PORT=", i+1))
	}
	_, err := engine(append(words, names...), ports)
	return err
}
