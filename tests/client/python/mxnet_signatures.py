"""Parameters of the functions and constructors of MXNet 1.9.1, with their defaults, for a comparison with this package's."""

SIGNATURES = r"""
AttrScope: **kwargs
Context: device_type | device_id=0
autograd.backward: heads | head_grads=None | retain_graph=False | train_mode=True
autograd.get_symbol: x
autograd.grad: heads | variables | head_grads=None | retain_graph=None | create_graph=False | train_mode=True
autograd.mark_variables: variables | gradients | grad_reqs='write'
autograd.pause: train_mode=False
autograd.record: train_mode=True
autograd.set_recording: is_recording
autograd.set_training: train_mode
callback.LogValidationMetricsCallback: *args | **kwargs
callback.ProgressBar: total | length=80
callback.Speedometer: batch_size | frequent=50 | auto_reset=True
callback.do_checkpoint: prefix | period=1
callback.log_train_metric: period | auto_reset=False
callback.module_checkpoint: mod | prefix | period=1 | save_optimizer_states=False
context.gpu_memory_info: device_id=0
contrib.autograd.TrainingStateScope: enter_state
contrib.autograd.backward: outputs | out_grads=None | retain_graph=False
contrib.autograd.compute_gradient: outputs
contrib.autograd.grad: func | argnum=None
contrib.autograd.grad_and_loss: func | argnum=None
contrib.autograd.mark_variables: variables | gradients | grad_reqs='write'
contrib.autograd.set_is_training: is_train
contrib.text.embedding.CompositeEmbedding: vocabulary | token_embeddings
contrib.text.embedding.create: embedding_name | **kwargs
contrib.text.embedding.get_pretrained_file_names: embedding_name=None
contrib.text.embedding.register: embedding_cls
contrib.text.utils.count_tokens_from_str: source_str | token_delim=' ' | seq_delim='\n' | to_lower=False | counter_to_update=None
cpu: device_id=0
cpu_pinned: device_id=0
executor.Executor: handle | symbol | ctx | grad_req | group2ctx
gluon.Block: prefix=None | params=None
gluon.Constant: name | value
gluon.DeferredInitializationError: *args | **kwargs
gluon.HybridBlock: prefix=None | params=None
gluon.ParameterDict: prefix='' | shared=None
gluon.SymbolBlock: outputs | inputs | params=None
gluon.Trainer: params | optimizer | optimizer_params=None | kvstore='device' | compression_params=None | update_on_kvstore=None
gluon.contrib.data.IntervalSampler: length | interval | rollover=True
gluon.contrib.nn.Concurrent: axis=-1 | prefix=None | params=None
gluon.contrib.nn.HybridConcurrent: axis=-1 | prefix=None | params=None
gluon.contrib.nn.Identity: prefix=None | params=None
gluon.contrib.nn.PixelShuffle1D: factor
gluon.contrib.nn.PixelShuffle2D: factor
gluon.contrib.nn.PixelShuffle3D: factor
gluon.contrib.nn.SparseEmbedding: input_dim | output_dim | dtype='float32' | weight_initializer=None | **kwargs
gluon.contrib.nn.SyncBatchNorm: in_channels=0 | num_devices=None | momentum=0.9 | epsilon=1e-05 | center=True | scale=True |
    use_global_stats=False | beta_initializer='zeros' | gamma_initializer='ones' | running_mean_initializer='zeros' |
    running_variance_initializer='ones' | **kwargs
gluon.contrib.rnn.Conv1DGRUCell: input_shape | hidden_channels | i2h_kernel | h2h_kernel | i2h_pad=(0,) | i2h_dilate=(1,) |
    h2h_dilate=(1,) | i2h_weight_initializer=None | h2h_weight_initializer=None | i2h_bias_initializer='zeros' |
    h2h_bias_initializer='zeros' | conv_layout='NCW' | activation='tanh' | prefix=None | params=None
gluon.contrib.rnn.Conv1DLSTMCell: input_shape | hidden_channels | i2h_kernel | h2h_kernel | i2h_pad=(0,) | i2h_dilate=(1,) |
    h2h_dilate=(1,) | i2h_weight_initializer=None | h2h_weight_initializer=None | i2h_bias_initializer='zeros' |
    h2h_bias_initializer='zeros' | conv_layout='NCW' | activation='tanh' | prefix=None | params=None
gluon.contrib.rnn.Conv1DRNNCell: input_shape | hidden_channels | i2h_kernel | h2h_kernel | i2h_pad=(0,) | i2h_dilate=(1,) |
    h2h_dilate=(1,) | i2h_weight_initializer=None | h2h_weight_initializer=None | i2h_bias_initializer='zeros' |
    h2h_bias_initializer='zeros' | conv_layout='NCW' | activation='tanh' | prefix=None | params=None
gluon.contrib.rnn.Conv2DGRUCell: input_shape | hidden_channels | i2h_kernel | h2h_kernel | i2h_pad=(0, 0) | i2h_dilate=(1, 1) |
    h2h_dilate=(1, 1) | i2h_weight_initializer=None | h2h_weight_initializer=None | i2h_bias_initializer='zeros' |
    h2h_bias_initializer='zeros' | conv_layout='NCHW' | activation='tanh' | prefix=None | params=None
gluon.contrib.rnn.Conv2DLSTMCell: input_shape | hidden_channels | i2h_kernel | h2h_kernel | i2h_pad=(0, 0) | i2h_dilate=(1, 1) |
    h2h_dilate=(1, 1) | i2h_weight_initializer=None | h2h_weight_initializer=None | i2h_bias_initializer='zeros' |
    h2h_bias_initializer='zeros' | conv_layout='NCHW' | activation='tanh' | prefix=None | params=None
gluon.contrib.rnn.Conv2DRNNCell: input_shape | hidden_channels | i2h_kernel | h2h_kernel | i2h_pad=(0, 0) | i2h_dilate=(1, 1) |
    h2h_dilate=(1, 1) | i2h_weight_initializer=None | h2h_weight_initializer=None | i2h_bias_initializer='zeros' |
    h2h_bias_initializer='zeros' | conv_layout='NCHW' | activation='tanh' | prefix=None | params=None
gluon.contrib.rnn.Conv3DGRUCell: input_shape | hidden_channels | i2h_kernel | h2h_kernel | i2h_pad=(0, 0, 0) | i2h_dilate=(1, 1, 1) |
    h2h_dilate=(1, 1, 1) | i2h_weight_initializer=None | h2h_weight_initializer=None | i2h_bias_initializer='zeros' |
    h2h_bias_initializer='zeros' | conv_layout='NCDHW' | activation='tanh' | prefix=None | params=None
gluon.contrib.rnn.Conv3DLSTMCell: input_shape | hidden_channels | i2h_kernel | h2h_kernel | i2h_pad=(0, 0, 0) | i2h_dilate=(1, 1, 1) |
    h2h_dilate=(1, 1, 1) | i2h_weight_initializer=None | h2h_weight_initializer=None | i2h_bias_initializer='zeros' |
    h2h_bias_initializer='zeros' | conv_layout='NCDHW' | activation='tanh' | prefix=None | params=None
gluon.contrib.rnn.Conv3DRNNCell: input_shape | hidden_channels | i2h_kernel | h2h_kernel | i2h_pad=(0, 0, 0) | i2h_dilate=(1, 1, 1) |
    h2h_dilate=(1, 1, 1) | i2h_weight_initializer=None | h2h_weight_initializer=None | i2h_bias_initializer='zeros' |
    h2h_bias_initializer='zeros' | conv_layout='NCDHW' | activation='tanh' | prefix=None | params=None
gluon.contrib.rnn.LSTMPCell: hidden_size | projection_size | i2h_weight_initializer=None | h2h_weight_initializer=None |
    h2r_weight_initializer=None | i2h_bias_initializer='zeros' | h2h_bias_initializer='zeros' | input_size=0 | prefix=None | params=None
gluon.contrib.rnn.VariationalDropoutCell: base_cell | drop_inputs=0.0 | drop_states=0.0 | drop_outputs=0.0
gluon.data.ArrayDataset: *args
gluon.data.BatchSampler: sampler | batch_size | last_batch='keep'
gluon.data.DataLoader: dataset | batch_size=None | shuffle=False | sampler=None | last_batch=None | batch_sampler=None |
    batchify_fn=None | num_workers=0 | pin_memory=False | pin_device_id=0 | prefetch=None | thread_pool=False | timeout=120 |
    auto_reload=False
gluon.data.Dataset: *args | **kwargs
gluon.data.FilterSampler: fn | dataset
gluon.data.RandomSampler: length
gluon.data.RecordFileDataset: filename
gluon.data.Sampler: *args | **kwargs
gluon.data.SequentialSampler: length | start=0
gluon.data.SimpleDataset: data
gluon.data.dataloader.default_batchify_fn: data
gluon.data.dataloader.default_mp_batchify_fn: data
gluon.data.vision.ImageFolderDataset: root | flag=1 | transform=None
gluon.data.vision.ImageRecordDataset: filename | flag=1 | transform=None
gluon.data.vision.transforms.Cast: dtype='float32'
gluon.data.vision.transforms.CenterCrop: size | interpolation=1
gluon.data.vision.transforms.Compose: transforms
gluon.data.vision.transforms.CropResize: x | y | width | height | size=None | interpolation=None
gluon.data.vision.transforms.Normalize: mean=0.0 | std=1.0
gluon.data.vision.transforms.RandomApply: transforms | p=0.5
gluon.data.vision.transforms.RandomBrightness: brightness
gluon.data.vision.transforms.RandomColorJitter: brightness=0 | contrast=0 | saturation=0 | hue=0
gluon.data.vision.transforms.RandomContrast: contrast
gluon.data.vision.transforms.RandomHue: hue
gluon.data.vision.transforms.RandomLighting: alpha
gluon.data.vision.transforms.RandomResizedCrop: size | scale=(0.08, 1.0) | ratio=(0.75, 1.3333333333333333) | interpolation=1
gluon.data.vision.transforms.RandomRotation: angle_limits | zoom_in=False | zoom_out=False | rotate_with_proba=1.0
gluon.data.vision.transforms.RandomSaturation: saturation
gluon.data.vision.transforms.Resize: size | keep_ratio=False | interpolation=1
gluon.data.vision.transforms.Rotate: rotation_degrees | zoom_in=False | zoom_out=False
gluon.loss.CTCLoss: layout='NTC' | label_layout='NT' | weight=None | **kwargs
gluon.loss.CosineEmbeddingLoss: weight=None | batch_axis=0 | margin=0 | **kwargs
gluon.loss.HingeLoss: margin=1 | weight=None | batch_axis=0 | **kwargs
gluon.loss.HuberLoss: rho=1 | weight=None | batch_axis=0 | **kwargs
gluon.loss.KLDivLoss: from_logits=True | axis=-1 | weight=None | batch_axis=0 | **kwargs
gluon.loss.L1Loss: weight=None | batch_axis=0 | **kwargs
gluon.loss.L2Loss: weight=1.0 | batch_axis=0 | **kwargs
gluon.loss.LogisticLoss: weight=None | batch_axis=0 | label_format='signed' | **kwargs
gluon.loss.Loss: weight | batch_axis | **kwargs
gluon.loss.PoissonNLLLoss: weight=None | from_logits=True | batch_axis=0 | compute_full=False | **kwargs
gluon.loss.SDMLLoss: smoothing_parameter=0.3 | weight=1.0 | batch_axis=0 | **kwargs
gluon.loss.SigmoidBCELoss: from_sigmoid=False | weight=None | batch_axis=0 | **kwargs
gluon.loss.SigmoidBinaryCrossEntropyLoss: from_sigmoid=False | weight=None | batch_axis=0 | **kwargs
gluon.loss.SoftmaxCELoss: axis=-1 | sparse_label=True | from_logits=False | weight=None | batch_axis=0 | **kwargs
gluon.loss.SoftmaxCrossEntropyLoss: axis=-1 | sparse_label=True | from_logits=False | weight=None | batch_axis=0 | **kwargs
gluon.loss.SquaredHingeLoss: margin=1 | weight=None | batch_axis=0 | **kwargs
gluon.loss.TripletLoss: margin=1 | weight=None | batch_axis=0 | **kwargs
gluon.model_zoo.model_store.short_hash: name
gluon.model_zoo.vision.AlexNet: classes=1000 | **kwargs
gluon.model_zoo.vision.BasicBlockV1: channels | stride | downsample=False | in_channels=0 | **kwargs
gluon.model_zoo.vision.BasicBlockV2: channels | stride | downsample=False | in_channels=0 | **kwargs
gluon.model_zoo.vision.BottleneckV1: channels | stride | downsample=False | in_channels=0 | **kwargs
gluon.model_zoo.vision.BottleneckV2: channels | stride | downsample=False | in_channels=0 | **kwargs
gluon.model_zoo.vision.DenseNet: num_init_features | growth_rate | block_config | bn_size=4 | dropout=0 | classes=1000 | **kwargs
gluon.model_zoo.vision.Inception3: classes=1000 | **kwargs
gluon.model_zoo.vision.MobileNet: multiplier=1.0 | classes=1000 | **kwargs
gluon.model_zoo.vision.MobileNetV2: multiplier=1.0 | classes=1000 | **kwargs
gluon.model_zoo.vision.ResNetV1: block | layers | channels | classes=1000 | thumbnail=False | **kwargs
gluon.model_zoo.vision.ResNetV2: block | layers | channels | classes=1000 | thumbnail=False | **kwargs
gluon.model_zoo.vision.SqueezeNet: version | classes=1000 | **kwargs
gluon.model_zoo.vision.VGG: layers | filters | classes=1000 | batch_norm=False | **kwargs
gluon.model_zoo.vision.densenet121: **kwargs
gluon.model_zoo.vision.densenet161: **kwargs
gluon.model_zoo.vision.densenet169: **kwargs
gluon.model_zoo.vision.densenet201: **kwargs
gluon.model_zoo.vision.get_model: name | **kwargs
gluon.model_zoo.vision.mobilenet0_25: **kwargs
gluon.model_zoo.vision.mobilenet0_5: **kwargs
gluon.model_zoo.vision.mobilenet0_75: **kwargs
gluon.model_zoo.vision.mobilenet1_0: **kwargs
gluon.model_zoo.vision.mobilenet_v2_0_25: **kwargs
gluon.model_zoo.vision.mobilenet_v2_0_5: **kwargs
gluon.model_zoo.vision.mobilenet_v2_0_75: **kwargs
gluon.model_zoo.vision.mobilenet_v2_1_0: **kwargs
gluon.model_zoo.vision.resnet101_v1: **kwargs
gluon.model_zoo.vision.resnet101_v2: **kwargs
gluon.model_zoo.vision.resnet152_v1: **kwargs
gluon.model_zoo.vision.resnet152_v2: **kwargs
gluon.model_zoo.vision.resnet18_v1: **kwargs
gluon.model_zoo.vision.resnet18_v2: **kwargs
gluon.model_zoo.vision.resnet34_v1: **kwargs
gluon.model_zoo.vision.resnet34_v2: **kwargs
gluon.model_zoo.vision.resnet50_v1: **kwargs
gluon.model_zoo.vision.resnet50_v2: **kwargs
gluon.model_zoo.vision.squeezenet1_0: **kwargs
gluon.model_zoo.vision.squeezenet1_1: **kwargs
gluon.model_zoo.vision.vgg11: **kwargs
gluon.model_zoo.vision.vgg11_bn: **kwargs
gluon.model_zoo.vision.vgg13: **kwargs
gluon.model_zoo.vision.vgg13_bn: **kwargs
gluon.model_zoo.vision.vgg16: **kwargs
gluon.model_zoo.vision.vgg16_bn: **kwargs
gluon.model_zoo.vision.vgg19: **kwargs
gluon.model_zoo.vision.vgg19_bn: **kwargs
gluon.nn.Activation: activation | **kwargs
gluon.nn.AvgPool1D: pool_size=2 | strides=None | padding=0 | layout='NCW' | ceil_mode=False | count_include_pad=True | **kwargs
gluon.nn.AvgPool2D: pool_size=(2, 2) | strides=None | padding=0 | ceil_mode=False | layout='NCHW' | count_include_pad=True | **kwargs
gluon.nn.AvgPool3D: pool_size=(2, 2, 2) | strides=None | padding=0 | ceil_mode=False | layout='NCDHW' | count_include_pad=True |
    **kwargs
gluon.nn.BatchNorm: axis=1 | momentum=0.9 | epsilon=1e-05 | center=True | scale=True | use_global_stats=False | beta_initializer='zeros'
    | gamma_initializer='ones' | running_mean_initializer='zeros' | running_variance_initializer='ones' | in_channels=0 | **kwargs
gluon.nn.BatchNormReLU: axis=1 | momentum=0.9 | epsilon=1e-05 | center=True | scale=True | use_global_stats=False |
    beta_initializer='zeros' | gamma_initializer='ones' | running_mean_initializer='zeros' | running_variance_initializer='ones' |
    in_channels=0 | **kwargs
gluon.nn.Conv1D: channels | kernel_size | strides=1 | padding=0 | dilation=1 | groups=1 | layout='NCW' | activation=None | use_bias=True
    | weight_initializer=None | bias_initializer='zeros' | in_channels=0 | **kwargs
gluon.nn.Conv1DTranspose: channels | kernel_size | strides=1 | padding=0 | output_padding=0 | dilation=1 | groups=1 | layout='NCW' |
    activation=None | use_bias=True | weight_initializer=None | bias_initializer='zeros' | in_channels=0 | **kwargs
gluon.nn.Conv2D: channels | kernel_size | strides=(1, 1) | padding=(0, 0) | dilation=(1, 1) | groups=1 | layout='NCHW' | activation=None
    | use_bias=True | weight_initializer=None | bias_initializer='zeros' | in_channels=0 | **kwargs
gluon.nn.Conv2DTranspose: channels | kernel_size | strides=(1, 1) | padding=(0, 0) | output_padding=(0, 0) | dilation=(1, 1) | groups=1
    | layout='NCHW' | activation=None | use_bias=True | weight_initializer=None | bias_initializer='zeros' | in_channels=0 | **kwargs
gluon.nn.Conv3D: channels | kernel_size | strides=(1, 1, 1) | padding=(0, 0, 0) | dilation=(1, 1, 1) | groups=1 | layout='NCDHW' |
    activation=None | use_bias=True | weight_initializer=None | bias_initializer='zeros' | in_channels=0 | **kwargs
gluon.nn.Conv3DTranspose: channels | kernel_size | strides=(1, 1, 1) | padding=(0, 0, 0) | output_padding=(0, 0, 0) | dilation=(1, 1, 1)
    | groups=1 | layout='NCDHW' | activation=None | use_bias=True | weight_initializer=None | bias_initializer='zeros' | in_channels=0 |
    **kwargs
gluon.nn.Dense: units | activation=None | use_bias=True | flatten=True | dtype='float32' | weight_initializer=None |
    bias_initializer='zeros' | in_units=0 | **kwargs
gluon.nn.Dropout: rate | axes=() | **kwargs
gluon.nn.ELU: alpha=1.0 | **kwargs
gluon.nn.Embedding: input_dim | output_dim | dtype='float32' | weight_initializer=None | sparse_grad=False | **kwargs
gluon.nn.Flatten: **kwargs
gluon.nn.GELU: **kwargs
gluon.nn.GlobalAvgPool1D: layout='NCW' | **kwargs
gluon.nn.GlobalAvgPool2D: layout='NCHW' | **kwargs
gluon.nn.GlobalAvgPool3D: layout='NCDHW' | **kwargs
gluon.nn.GlobalMaxPool1D: layout='NCW' | **kwargs
gluon.nn.GlobalMaxPool2D: layout='NCHW' | **kwargs
gluon.nn.GlobalMaxPool3D: layout='NCDHW' | **kwargs
gluon.nn.GroupNorm: num_groups=1 | epsilon=1e-05 | center=True | scale=True | beta_initializer='zeros' | gamma_initializer='ones' |
    prefix=None | params=None
gluon.nn.HybridLambda: function | prefix=None
gluon.nn.HybridSequential: prefix=None | params=None
gluon.nn.InstanceNorm: axis=1 | epsilon=1e-05 | center=True | scale=False | beta_initializer='zeros' | gamma_initializer='ones' |
    in_channels=0 | **kwargs
gluon.nn.Lambda: function | prefix=None
gluon.nn.LayerNorm: axis=-1 | epsilon=1e-05 | center=True | scale=True | beta_initializer='zeros' | gamma_initializer='ones' |
    in_channels=0 | prefix=None | params=None
gluon.nn.LeakyReLU: alpha | **kwargs
gluon.nn.MaxPool1D: pool_size=2 | strides=None | padding=0 | layout='NCW' | ceil_mode=False | **kwargs
gluon.nn.MaxPool2D: pool_size=(2, 2) | strides=None | padding=0 | layout='NCHW' | ceil_mode=False | **kwargs
gluon.nn.MaxPool3D: pool_size=(2, 2, 2) | strides=None | padding=0 | ceil_mode=False | layout='NCDHW' | **kwargs
gluon.nn.ReflectionPad2D: padding=0 | **kwargs
gluon.nn.SELU: **kwargs
gluon.nn.Sequential: prefix=None | params=None
gluon.nn.Swish: beta=1.0 | **kwargs
gluon.rnn.BidirectionalCell: l_cell | r_cell | output_prefix='bi_'
gluon.rnn.DropoutCell: rate | axes=() | prefix=None | params=None
gluon.rnn.GRU: hidden_size | num_layers=1 | layout='TNC' | dropout=0 | bidirectional=False | input_size=0 | i2h_weight_initializer=None
    | h2h_weight_initializer=None | i2h_bias_initializer='zeros' | h2h_bias_initializer='zeros' | dtype='float32' | **kwargs
gluon.rnn.GRUCell: hidden_size | i2h_weight_initializer=None | h2h_weight_initializer=None | i2h_bias_initializer='zeros' |
    h2h_bias_initializer='zeros' | input_size=0 | prefix=None | params=None
gluon.rnn.HybridRecurrentCell: prefix=None | params=None
gluon.rnn.HybridSequentialRNNCell: prefix=None | params=None
gluon.rnn.LSTM: hidden_size | num_layers=1 | layout='TNC' | dropout=0 | bidirectional=False | input_size=0 | i2h_weight_initializer=None
    | h2h_weight_initializer=None | i2h_bias_initializer='zeros' | h2h_bias_initializer='zeros' | projection_size=None |
    h2r_weight_initializer=None | state_clip_min=None | state_clip_max=None | state_clip_nan=False | dtype='float32' | **kwargs
gluon.rnn.LSTMCell: hidden_size | i2h_weight_initializer=None | h2h_weight_initializer=None | i2h_bias_initializer='zeros' |
    h2h_bias_initializer='zeros' | input_size=0 | prefix=None | params=None | activation='tanh' | recurrent_activation='sigmoid'
gluon.rnn.ModifierCell: base_cell
gluon.rnn.RNN: hidden_size | num_layers=1 | activation='relu' | layout='TNC' | dropout=0 | bidirectional=False |
    i2h_weight_initializer=None | h2h_weight_initializer=None | i2h_bias_initializer='zeros' | h2h_bias_initializer='zeros' |
    input_size=0 | dtype='float32' | **kwargs
gluon.rnn.RNNCell: hidden_size | activation='tanh' | i2h_weight_initializer=None | h2h_weight_initializer=None |
    i2h_bias_initializer='zeros' | h2h_bias_initializer='zeros' | input_size=0 | prefix=None | params=None
gluon.rnn.RecurrentCell: prefix=None | params=None
gluon.rnn.ResidualCell: base_cell
gluon.rnn.SequentialRNNCell: prefix=None | params=None
gluon.rnn.ZoneoutCell: base_cell | zoneout_outputs=0.0 | zoneout_states=0.0
gluon.utils.check_sha1: filename | sha1_hash
gluon.utils.clip_global_norm: arrays | max_norm | check_isfinite=True
gluon.utils.download: url | path=None | overwrite=False | sha1_hash=None | retries=5 | verify_ssl=True
gluon.utils.replace_file: src | dst
gluon.utils.split_and_load: data | ctx_list | batch_axis=0 | even_split=True
gluon.utils.split_data: data | num_slice | batch_axis=0 | even_split=True
gpu: device_id=0
image.Augmenter: **kwargs
image.BrightnessJitterAug: brightness
image.CastAug: typ='float32'
image.CenterCropAug: size | interp=2
image.ColorJitterAug: brightness | contrast | saturation
image.ColorNormalizeAug: mean | std
image.ContrastJitterAug: contrast
image.CreateAugmenter: data_shape | resize=0 | rand_crop=False | rand_resize=False | rand_mirror=False | mean=None | std=None |
    brightness=0 | contrast=0 | saturation=0 | hue=0 | pca_noise=0 | rand_gray=0 | inter_method=2
image.CreateDetAugmenter: data_shape | resize=0 | rand_crop=0 | rand_pad=0 | rand_gray=0 | rand_mirror=False | mean=None | std=None |
    brightness=0 | contrast=0 | saturation=0 | pca_noise=0 | hue=0 | inter_method=2 | min_object_covered=0.1 | aspect_ratio_range=(0.75,
    1.33) | area_range=(0.05, 3.0) | min_eject_coverage=0.3 | max_attempts=50 | pad_val=(127, 127, 127)
image.CreateMultiRandCropAugmenter: min_object_covered=0.1 | aspect_ratio_range=(0.75, 1.33) | area_range=(0.05, 1.0) |
    min_eject_coverage=0.3 | max_attempts=50 | skip_prob=0
image.DetAugmenter: **kwargs
image.DetBorrowAug: augmenter
image.DetHorizontalFlipAug: p
image.DetRandomCropAug: min_object_covered=0.1 | aspect_ratio_range=(0.75, 1.33) | area_range=(0.05, 1.0) | min_eject_coverage=0.3 |
    max_attempts=50
image.DetRandomPadAug: aspect_ratio_range=(0.75, 1.33) | area_range=(1.0, 3.0) | max_attempts=50 | pad_val=(128, 128, 128)
image.DetRandomSelectAug: aug_list | skip_prob=0
image.ForceResizeAug: size | interp=2
image.HorizontalFlipAug: p
image.HueJitterAug: hue
image.ImageDetIter: batch_size | data_shape | path_imgrec=None | path_imglist=None | path_root=None | path_imgidx=None | shuffle=False |
    part_index=0 | num_parts=1 | aug_list=None | imglist=None | data_name='data' | label_name='label' | last_batch_handle='pad' |
    **kwargs
image.ImageIter: batch_size | data_shape | label_width=1 | path_imgrec=None | path_imglist=None | path_root=None | path_imgidx=None |
    shuffle=False | part_index=0 | num_parts=1 | aug_list=None | imglist=None | data_name='data' | label_name='softmax_label' |
    dtype='float32' | last_batch_handle='pad' | **kwargs
image.LightingAug: alphastd | eigval | eigvec
image.RandomCropAug: size | interp=2
image.RandomGrayAug: p
image.RandomOrderAug: ts
image.RandomSizedCropAug: size | area | ratio | interp=2 | **kwargs
image.ResizeAug: size | interp=2
image.SaturationJitterAug: saturation
image.SequentialAug: ts
image.center_crop: src | size | interp=2
image.color_normalize: src | mean | std=None
image.fixed_crop: src | x0 | y0 | w | h | size=None | interp=2
image.imdecode: buf | *args | **kwargs
image.imread: filename | *args | **kwargs
image.imresize: src | w | h | *args | **kwargs
image.imrotate: src | rotation_degrees | zoom_in=False | zoom_out=False
image.random_crop: src | size | interp=2
image.random_rotate: src | angle_limits | zoom_in=False | zoom_out=False
image.random_size_crop: src | size | area | ratio | interp=2 | **kwargs
image.resize_short: src | size | interp=2
image.scale_down: src_size | size
initializer.Constant: value
initializer.FusedRNN: init | num_hidden | num_layers | mode | bidirectional=False | forget_bias=1.0
initializer.InitDesc: *args | **kwargs
initializer.Initializer: **kwargs
initializer.LSTMBias: forget_bias=1.0
initializer.Load: param | default_init=None | verbose=False
initializer.MSRAPrelu: factor_type='avg' | slope=0.25
initializer.Mixed: patterns | initializers
initializer.Normal: sigma=0.01
initializer.Orthogonal: scale=1.414 | rand_type='uniform'
initializer.Uniform: scale=0.07
initializer.Xavier: rnd_type='uniform' | factor_type='avg' | magnitude=3
initializer.alias: *aliases
initializer.create: *args | **kwargs
initializer.register: klass
io.CSVIter: *args | **kwargs
io.DataBatch: data | label=None | pad=None | index=None | bucket_key=None | provide_data=None | provide_label=None
io.DataDesc: *args | **kwargs
io.DataIter: batch_size=0
io.ImageDetRecordIter: *args | **kwargs
io.ImageRecordInt8Iter: *args | **kwargs
io.ImageRecordIter: *args | **kwargs
io.ImageRecordIter_v1: *args | **kwargs
io.ImageRecordUInt8Iter: *args | **kwargs
io.ImageRecordUInt8Iter_v1: *args | **kwargs
io.LibSVMIter: *args | **kwargs
io.MNISTIter: *args | **kwargs
io.MXDataIter: handle | data_name='data' | label_name='softmax_label'
io.NDArrayIter: data | label=None | batch_size=1 | shuffle=False | last_batch_handle='pad' | data_name='data' |
    label_name='softmax_label' | layout='NCHW'
io.PrefetchingIter: iters | rename_data=None | rename_label=None
io.ResizeIter: data_iter | size | reset_internal=True
kvstore.KVStoreBase: *args | **kwargs
kvstore.create: name='local'
lr_scheduler.CosineScheduler: max_update | base_lr=0.01 | final_lr=0 | warmup_steps=0 | warmup_begin_lr=0 | warmup_mode='linear'
lr_scheduler.FactorScheduler: step | factor=1 | stop_factor_lr=1e-08 | base_lr=0.01 | warmup_steps=0 | warmup_begin_lr=0 |
    warmup_mode='linear'
lr_scheduler.LRScheduler: base_lr=0.01 | warmup_steps=0 | warmup_begin_lr=0 | warmup_mode='linear'
lr_scheduler.MultiFactorScheduler: step | factor=1 | base_lr=0.01 | warmup_steps=0 | warmup_begin_lr=0 | warmup_mode='linear'
lr_scheduler.PolyScheduler: max_update | base_lr=0.01 | pwr=2 | final_lr=0 | warmup_steps=0 | warmup_begin_lr=0 | warmup_mode='linear'
metric.Accuracy: axis=1 | name='accuracy' | output_names=None | label_names=None
metric.Caffe: name='caffe' | output_names=None | label_names=None
metric.CompositeEvalMetric: metrics=None | name='composite' | output_names=None | label_names=None
metric.CrossEntropy: eps=1e-12 | name='cross-entropy' | output_names=None | label_names=None
metric.CustomMetric: feval | name=None | allow_extra_outputs=False | output_names=None | label_names=None
metric.EvalMetric: name | output_names=None | label_names=None | **kwargs
metric.F1: name='f1' | output_names=None | label_names=None | average='macro'
metric.Loss: name='loss' | output_names=None | label_names=None
metric.MAE: name='mae' | output_names=None | label_names=None
metric.MCC: name='mcc' | output_names=None | label_names=None | average='macro'
metric.MSE: name='mse' | output_names=None | label_names=None
metric.NegativeLogLikelihood: eps=1e-12 | name='nll-loss' | output_names=None | label_names=None
metric.PCC: name='pcc' | output_names=None | label_names=None | has_global_stats=True
metric.PearsonCorrelation: name='pearsonr' | output_names=None | label_names=None | average='macro'
metric.Perplexity: ignore_label | axis=-1 | name='perplexity' | output_names=None | label_names=None
metric.RMSE: name='rmse' | output_names=None | label_names=None
metric.TopKAccuracy: top_k=1 | name='top_k_accuracy' | output_names=None | label_names=None
metric.Torch: name='torch' | output_names=None | label_names=None
metric.check_label_shapes: labels | preds | wrap=False | shape=False
metric.create: metric | *args | **kwargs
metric.np: numpy_feval | name=None | allow_extra_outputs=False
metric.register: klass | name=None
model.BatchEndParam: *args | **kwargs
model.load_checkpoint: prefix | epoch
model.load_params: prefix | epoch
monitor.Monitor: interval | stat_func=None | pattern='.*' | sort=False | monitor_all=False
name.Prefix: prefix
operator.CustomOpProp: need_top_grad=True
operator.NDArrayOp: need_top_grad=True
operator.NumpyOp: need_top_grad=True
operator.PythonOp: need_top_grad=True
operator.get_operator_arguments: op_name
operator.register: reg_name
optimizer.AdaDelta: rho=0.9 | epsilon=1e-05 | **kwargs
optimizer.AdaGrad: eps=1e-07 | **kwargs
optimizer.Adam: learning_rate=0.001 | beta1=0.9 | beta2=0.999 | epsilon=1e-08 | lazy_update=True | **kwargs
optimizer.Adamax: learning_rate=0.002 | beta1=0.9 | beta2=0.999 | **kwargs
optimizer.DCASGD: momentum=0.0 | lamda=0.04 | **kwargs
optimizer.FTML: beta1=0.6 | beta2=0.999 | epsilon=1e-08 | **kwargs
optimizer.Ftrl: lamda1=0.01 | learning_rate=0.1 | beta=1 | **kwargs
optimizer.LAMB: learning_rate=0.001 | beta1=0.9 | beta2=0.999 | epsilon=1e-06 | lower_bound=None | upper_bound=None |
    bias_correction=True | **kwargs
optimizer.LARS: momentum=0.0 | lazy_update=True | eta=0.001 | eps=0 | momentum_correction=True | **kwargs
optimizer.LBSGD: momentum=0.0 | multi_precision=False | warmup_strategy='linear' | warmup_epochs=5 | batch_scale=1 |
    updates_per_epoch=32 | begin_epoch=0 | num_epochs=60 | **kwargs
optimizer.NAG: momentum=0.0 | **kwargs
optimizer.Nadam: learning_rate=0.001 | beta1=0.9 | beta2=0.999 | epsilon=1e-08 | schedule_decay=0.004 | **kwargs
optimizer.Optimizer: rescale_grad=1.0 | param_idx2name=None | wd=0.0 | clip_gradient=None | learning_rate=None | lr_scheduler=None |
    sym=None | begin_num_update=0 | multi_precision=False | param_dict=None
optimizer.RMSProp: learning_rate=0.001 | gamma1=0.9 | gamma2=0.9 | epsilon=1e-08 | centered=False | clip_weights=None | **kwargs
optimizer.SGD: momentum=0.0 | lazy_update=True | **kwargs
optimizer.SGLD: **kwargs
optimizer.Signum: learning_rate=0.01 | momentum=0.9 | wd_lh=0.0 | **kwargs
optimizer.Test: **kwargs
optimizer.Updater: optimizer
optimizer.ccSGD: *args | **kwargs
optimizer.contrib.GroupAdaGrad: eps=1e-05 | **kwargs
optimizer.create: name | **kwargs
optimizer.register: klass
random.seed: seed_state | ctx='all'
recordio.IRHeader: *args | **kwargs
recordio.MXRecordIO: uri | flag
recordio.pack: header | s
recordio.pack_img: header | img | quality=95 | img_fmt='.jpg'
recordio.unpack: s
recordio.unpack_img: s | iscolor=-1
rnn.BaseConvRNNCell: input_shape | num_hidden | h2h_kernel | h2h_dilate | i2h_kernel | i2h_stride | i2h_pad | i2h_dilate |
    i2h_weight_initializer | h2h_weight_initializer | i2h_bias_initializer | h2h_bias_initializer | activation | prefix='' | params=None
    | conv_layout='NCHW'
rnn.BaseRNNCell: prefix='' | params=None
rnn.BidirectionalCell: l_cell | r_cell | params=None | output_prefix='bi_'
rnn.BucketSentenceIter: sentences | batch_size | buckets=None | invalid_label=-1 | data_name='data' | label_name='softmax_label' |
    dtype='float32' | layout='NT'
rnn.DropoutCell: dropout | prefix='dropout_' | params=None
rnn.FusedRNNCell: num_hidden | num_layers=1 | mode='lstm' | bidirectional=False | dropout=0.0 | get_next_state=False | forget_bias=1.0 |
    prefix=None | params=None
rnn.GRUCell: num_hidden | prefix='gru_' | params=None
rnn.LSTMCell: num_hidden | prefix='lstm_' | params=None | forget_bias=1.0
rnn.ModifierCell: base_cell
rnn.RNNCell: num_hidden | activation='tanh' | prefix='rnn_' | params=None
rnn.RNNParams: prefix=''
rnn.ResidualCell: base_cell
rnn.SequentialRNNCell: params=None
rnn.ZoneoutCell: base_cell | zoneout_outputs=0.0 | zoneout_states=0.0
rnn.do_rnn_checkpoint: cells | prefix | period=1
rnn.encode_sentences: sentences | vocab=None | invalid_label=-1 | invalid_key='\n' | start_label=0 | unknown_token=None
rnn.load_rnn_checkpoint: cells | prefix | epoch
rnn.rnn_unroll: cell | length | inputs=None | begin_state=None | input_prefix='' | layout='NTC'
rnn.save_rnn_checkpoint: cells | prefix | epoch | symbol | arg_params | aux_params
visualization.plot_network: symbol | title='plot' | save_format='pdf' | shape=None | dtype=None | node_attrs={} | hide_weights=True
visualization.print_summary: symbol | shape=None | line_length=120 | positions=[0.44, 0.64, 0.74, 1.0]
"""
