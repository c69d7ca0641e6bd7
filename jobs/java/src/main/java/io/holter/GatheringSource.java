package io.holter;

import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.connector.source.Boundedness;
import org.apache.flink.api.connector.source.Source;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.connector.source.SourceSplit;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.api.java.typeutils.ResultTypeQueryable;
import org.apache.flink.core.io.SimpleVersionedSerializer;
import org.apache.flink.types.Row;

/**
 * A source of {@code Row(String key, byte[] frame)} whose records of one key leave together while there is a backlog:
 * see {@link GatheringReader}. Splits, offsets and their stored form are those of the source it wraps.
 */
public final class GatheringSource<SplitT extends SourceSplit, StateT>
        implements Source<Row, SplitT, StateT>, ResultTypeQueryable<Row> {
    private static final long serialVersionUID = 1L;

    private final Source<Row, SplitT, StateT> source;

    public GatheringSource(Source<Row, SplitT, StateT> source) {
        this.source = source;
    }

    @Override
    public SourceReader<Row, SplitT> createReader(SourceReaderContext context) throws Exception {
        return new GatheringReader<>(source.createReader(context));
    }

    @Override
    public Boundedness getBoundedness() {
        return source.getBoundedness();
    }

    @Override
    public SplitEnumerator<SplitT, StateT> createEnumerator(SplitEnumeratorContext<SplitT> context) throws Exception {
        return source.createEnumerator(context);
    }

    @Override
    public SplitEnumerator<SplitT, StateT> restoreEnumerator(SplitEnumeratorContext<SplitT> context, StateT state)
            throws Exception {
        return source.restoreEnumerator(context, state);
    }

    @Override
    public SimpleVersionedSerializer<SplitT> getSplitSerializer() {
        return source.getSplitSerializer();
    }

    @Override
    public SimpleVersionedSerializer<StateT> getEnumeratorCheckpointSerializer() {
        return source.getEnumeratorCheckpointSerializer();
    }

    @Override
    @SuppressWarnings("unchecked")
    public TypeInformation<Row> getProducedType() {
        return ((ResultTypeQueryable<Row>) source).getProducedType();
    }
}
