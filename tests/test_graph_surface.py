"""The names, orders of arguments and shapes of answers that programs beside this one rely on."""

import numpy as np

from spector.graph import EntityDirectory, HebbianGraph, HyperGraph, TagCoActivation, TemporalChain


def arrays(answer, *types):
    """Whether it is a tuple of arrays of these types, of one length."""
    assert isinstance(answer, tuple)
    assert [array.dtype for array in answer] == [np.dtype(type) for type in types]
    assert len({len(array) for array in answer}) == 1
    return tuple(array.tolist() for array in answer)


def test_the_hebbian_graph(tmp_path):
    graph = HebbianGraph(max_degree=24)
    graph.resize(10)
    assert graph.strengthen(0, 1, delta=0.3) is True
    assert graph.strengthen(np.uint32(1), np.int64(2), 0.5) is True
    done = graph.strengthen_many([3, 4], np.array([5, 6]), 0.4)
    assert done.tolist() == [True, True]
    slots, weights = arrays(graph.neighbors(1), np.uint32, np.float32)
    assert (slots, np.float32(weights).tolist()) == ([0, 2], np.float32([0.3, 0.5]).tolist())
    for seeds in (0, np.uint32(0), [0], np.array([0]), np.array([0], np.uint32)):
        found = graph.spread(seeds, depth=2, min_strength=0.01, limit=None)
        assert arrays(found, np.uint32, np.float32)[0] == [1, 2]
        assert arrays(graph.spread(seeds, 2, 0.01, 1), np.uint32, np.float32)[0] == [1]
    assert graph.decay(factor=0.9).edges == 4
    assert graph.remove(0) == 1
    assert graph.edge_count == 3
    graph.save(tmp_path / "hebbian.graph")
    assert HebbianGraph.load(tmp_path / "hebbian.graph").edge_count == 3


def test_the_temporal_chain():
    chain = TemporalChain(5)
    chain.link(1, 0, 7)
    chain.link([2, 3], np.array([1, 2]), 7)
    assert chain.follow_forward(0, 2).tolist() == [1, 2]
    assert chain.follow_backward(start=3, max_hops=9).tolist() == [2, 1, 0]


def test_the_entity_directory():
    directory = EntityDirectory()
    kafka, flink = directory.intern("Kafka", 0), directory.intern("Flink", 4)
    assert directory.intern(["Kafka", "Kafkaa"], 0).tolist() == [kafka, 2]
    directory.link(kafka, 3)
    directory.link([kafka, flink], [4, 4])
    assert directory.find_entity(" KAFKA") == kafka
    assert directory.find_entity("Storm") == -1
    assert directory.memories_for_entity(kafka).tolist() == [3, 4]
    assert 0 < directory.fan_factor(kafka) <= 1
    assert directory.decay_adjacency_weights() == 0
    assert directory.compact_adjacency() >= 0
    assert directory.merge_similar().tolist() == [[2, kafka]]
    hyper = HyperGraph()
    hyper.add(0, [kafka, flink, 2], None, 4)
    assert arrays(directory.traverse(kafka), np.uint32, np.uint32) == ([kafka], [0])
    around = directory.traverse([kafka], None, 2, hyper)
    assert arrays(around, np.uint32, np.uint32) == ([kafka, flink], [0, 1])
    assert directory.collect_memories(kafka).tolist() == [3, 4]
    assert directory.collect_memories([flink], max_hops=1, hyper=hyper).tolist() == [3, 4]


def test_the_hyper_graph():
    graph = HyperGraph()
    first = graph.add(0, [1, 2, 3], [0, 1, 2], 9, 1000, 1.0)
    second = graph.add(
        type=0, entities=np.array([2, 3, 4]), roles=None, memory=10, timestamp=1001, weight=0.5
    )
    assert graph.hyperedges_for(2).tolist() == [first, second]
    assert graph.common([1, 2]).tolist() == [first]


def test_the_tags():
    tags = TagCoActivation()
    tags.observe(["a", "b"])
    assert tags.co_activation("a", "b") == 1
    assert tags.associated("a") == [("b", 1)]
    assert tags.observe_sequence(["a"], ["b"], 100) is True
    ((tag, weight),) = tags.predict("a")
    assert tag == "b"
    assert 0 < weight <= 1
